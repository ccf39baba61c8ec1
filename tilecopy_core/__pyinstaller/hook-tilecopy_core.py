"""A PyInstaller hook. It bundles every installed distribution that declares an entry point for tilecopy."""

from PyInstaller.utils.hooks import collect_data_files, collect_submodules, copy_metadata

from tilecopy_core.registry import distributions

datas = collect_data_files("tilecopy_core") + copy_metadata("tilecopy-core")
hiddenimports = collect_submodules("tilecopy_core", filter=lambda name: "__pyinstaller" not in name)
for distribution in distributions(declaring="tilecopy."):
    datas += copy_metadata(distribution.name)
    points = [point for point in distribution.metadata.entry_points if point.group.startswith("tilecopy.")]
    for package in sorted({point.module.partition(".")[0] for point in points}):
        datas += collect_data_files(package)
        hiddenimports += collect_submodules(package)
