"""What each opcode of PTX may look like, and the PTX ISA version and target that each of its forms needs: data alone.

A form is written much as the PTX ISA writes it: the fixed start of the opcode, then groups of which one part stands in the
opcode: ``{a,b}`` may be left out, ``(a,b)`` may not; ``$name`` is a list of :data:`PARTS`. Groups may stand in any order, as for
ptxas; groups joined by ``+`` stand side by side. ``[a|b]`` writes several forms at once, one with each of the texts. An opcode that
no form matches as a whole is not known, however it begins.

Source: PTX ISA 9.0, "PTX ISA notes" and "Target ISA notes" of each instruction. The tests hold every form against ptxas 13.0.
"""

_SIZES_32 = ["b8", "b16", "b32", "u8", "u16", "u32", "s8", "s16", "s32", "f32"]
_SIZES_64 = ["b64", "u64", "s64", "f64"]

PARTS = {
    "rnd": "rn,rz,rm,rp",
    "whole": "rni,rzi,rmi,rpi",
    "int": "u16,u32,u64,s16,s32,s64",
    "wide": "u32,u64,s32,s64",
    "bits": "b16,b32,b64",
    "basic": "u8,u16,u32,u64,s8,s16,s32,s64,f16,f32,f64",
    "halves": "f16,f16x2,bf16,bf16x2",
    "bfloat": "bf16,bf16x2",
    "cmp": "eq,ne,lt,le,gt,ge,lo,ls,hi,hs,equ,neu,ltu,leu,gtu,geu,num,nan",
    "signed": "eq,ne,lt,le,gt,ge",
    "bool": "and,or,xor",
    "data": ",".join(
        [*_SIZES_32, *_SIZES_64, "b128"]
        + [f"v{count}.{type}" for count in (2, 4) for type in _SIZES_32]
        + [f"v2.{type}" for type in _SIZES_64]
    ),
    "data256": ",".join([f"v8.{type}32" for type in "busf"] + [f"v4.{type}64" for type in "busf"]),
    "vectors": "v2.f32,v4.f32,v2.f16,v4.f16,v8.f16,v2.bf16,v4.bf16,v8.bf16,v2.f16x2,v4.f16x2,v2.bf16x2,v4.bf16x2",
    "narrow": "v2.f16,v4.f16,v8.f16,v2.bf16,v4.bf16,v8.bf16,v2.f16x2,v4.f16x2,v2.bf16x2,v4.bf16x2",
    "scope": "cta,cluster,gpu,sys",
    "own": "shared,shared::cta",
    "shared": "shared,shared::cta,shared::cluster",
    "rw": "global,shared,shared::cta,shared::cluster",
    "far": "local,const,param,param::entry,param::func,shared,shared::cta,shared::cluster",
    "cop": "ca,cg,cs,lu,cv",
    "wop": "wb,cg,cs,wt",
    "l1": "L1::evict_normal,L1::evict_unchanged,L1::evict_first,L1::evict_last,L1::no_allocate",
    "l2": "L2::evict_last,L2::evict_normal,L2::evict_first",
    "ahead": "L2::64B,L2::128B,L2::256B",
    "policy": "L2::evict_last,L2::evict_normal,L2::evict_first,L2::evict_unchanged",
    "rmw": "relaxed,acquire,release,acq_rel",
    "group": "cta_group::1,cta_group::2",
    "collector": "collector::a::fill,collector::a::use,collector::a::lastuse,collector::a::discard",
    "dims": "1d,2d,3d,4d,5d",
    "map_fields": "box_dim,global_dim,element_stride,elemtype,interleave_layout,swizzle_mode,fill_mode",
    "wmma": "m16n16k16,m8n32k16,m32n8k16",
    "x32": "x1,x2,x4,x8,x16,x32",
    "x64": "x1,x2,x4,x8,x16,x32,x64",
    "tx": "mbarrier::complete_tx::bytes",
    "f8": "e4m3,e5m2",
    "f8x4": "e4m3x4,e5m2x4,v2.e4m3x4,v2.e5m2x4,v4.e4m3x4,v4.e5m2x4",
    "f6": "e4m3,e5m2,e3m2,e2m3,e2m1",
    **{f"k{k}": ",".join(f"m64n{n}k{k}" for n in range(8, 257, 8)) for k in (8, 16, 32, 64, 256)},
}
"""Name -> parts of which one stands in an opcode."""

FORMS = {
    # ---------------------------------------------------------------------------------- arithmetic, moves, control
    "6.3 sm_75": """
        [add|sub]($int) [add|addc|sub|subc]{cc}($wide) [add|sub]{sat}.s32
        [add|sub|mul]{$rnd}[{ftz}{sat}.f32|.f64] [fma|mad]($rnd)[{ftz}{sat}.f32|.f64]
        [add{rn}|sub{rn}|mul{rn}|fma.rn]{ftz}{sat}(f16,f16x2)
        [mul|mad][.lo|.hi]($int) [mul|mad].wide(u16,u32,s16,s32) [mad|madc][.lo|.hi]{cc}($wide)
        [mul24|mad24][.lo|.hi](u32,s32) [mad|mad24].hi.sat.s32
        [sad|div|rem|min|max]($int) [abs|neg](s16,s32,s64) [abs|neg|min|max][{ftz}.f32|.f64] neg{ftz}(f16,f16x2) copysign(f32,f64)
        div.full{ftz}.f32 [div|rcp|sqrt](approx,$rnd){ftz}.f32 [div|rcp|sqrt]($rnd).f64 rcp.approx.ftz.f64
        rsqrt.approx{ftz}[.f32|.f64] [sin|cos|lg2|ex2].approx{ftz}.f32
        testp(finite,infinite,number,notanumber,normal,subnormal)(f32,f64)
        [and|or|xor|not](pred,$bits) cnot($bits) lop3.b32
        shl($bits) shr($bits,$int) shf(l,r)(clamp,wrap).b32 [popc|clz|brev|bfi](b32,b64) fns.b32
        bfind{shiftamt}($wide) bfe($wide) prmt{f4e,b4e,rc8,ecl,ecr,rc16}.b32
        dp4a(u32,s32)+(u32,s32) dp2a(lo,hi)(u32,s32)+(u32,s32)
        set($cmp){$bool}{ftz}[(u32,s32,f32)|(f16)]+($bits,$int,f16,f32,f64) set($cmp){$bool}{ftz}(f16x2,u32,s32)+(f16x2)
        setp(eq,ne){$bool}($bits) setp($signed){$bool}(s16,s32,s64) setp($signed,lo,ls,hi,hs){$bool}(u16,u32,u64)
        setp($signed,equ,neu,ltu,leu,gtu,geu,num,nan){$bool}{ftz}(f32,f64,f16,f16x2)
        selp($bits,$int,f32,f64) slct{ftz}($bits,$int,f32,f64)+(s32,f32) mov(pred,$bits,$int,f32,f64)
        cvt{$rnd,$whole}{ftz}{sat}($basic)+($basic) cvt.pack.sat(u16,s16,u8,s8,u4,s4,u2,s2)(s32){b32}
        cvta{to}(global,shared,local,const).u64 isspacep(global,shared,local,const)
        [bra|brx.idx|call|ret]{uni} exit trap brkpt nanosleep.u32 pmevent{mask}
        """,
    "6.5 sm_75": "abs{ftz}(f16,f16x2) set($cmp){$bool}{ftz}(u16,s16)+(f16)",
    "7.0 sm_75": "tanh.approx(f32,f16,f16x2) ex2.approx(f16,f16x2)",
    "7.3 sm_75": "[stacksave|stackrestore|alloca](u32,u64)",
    "7.6 sm_75": "szext(clamp,wrap)(u32,s32) bmsk(clamp,wrap).b32",
    "7.7 sm_75": "cvta{to}.param.u64 isspacep.param",
    "7.8 sm_75": "cvta{to}.shared::cta.u64 isspacep.shared::cta movmatrix.sync.aligned.m8n8.trans.b16",
    "8.2 sm_75": "lop3($bool).b32",
    "8.3 sm_75": "cvta{to}.param::entry.u64 isspacep.param::entry mov.b128",
    "7.0 sm_80": """
        fma(rn)(relu){ftz}(f16,f16x2) fma.rn{relu}(bf16,bf16x2) [min|max]{ftz}[(NaN)(f32)|{NaN}($halves)]
        [abs|neg](bf16,bf16x2) cvt(rn,rz){relu}($halves)+(f32) cvt.rna.tf32.f32
        """,
    "7.1 sm_80": "cvt.f32.bf16",
    "8.1 sm_80": "cvt(rn,rz)(satfinite){relu}($halves)+(f32) cvt.rna.satfinite.tf32.f32",
    "7.2 sm_86": "[min|max]{ftz}{NaN}(xorsign)(abs)(f32,$halves)",
    "7.8 sm_90": """
        [add{rn}|sub{rn}|mul{rn}|tanh.approx|ex2.approx.ftz](bf16,bf16x2)
        set($cmp){$bool}(u16,s16,u32,s32,bf16)+(bf16) set($cmp){$bool}(u32,s32,bf16x2)+(bf16x2)
        set($cmp){$bool}{ftz}(bf16)+($bits,$int,f16,f32,f64) setp($signed,equ,neu,ltu,leu,gtu,geu,num,nan){$bool}(bf16,bf16x2)
        cvt{$rnd,$whole}{ftz}{sat}[(bf16)+($basic,bf16)|($basic)+(bf16)] cvt(rn,rz){relu}.tf32.f32
        cvta{to}.shared::cluster.u64 isspacep.shared::cluster [mapa|getctarank][|.shared::cluster](u32,u64)
        griddepcontrol(launch_dependents,wait)
        """,
    "8.0 sm_90": "add(u16x2,s16x2) [min|max][{relu}.s16x2|.u16x2|.relu.s32]",
    "8.1 sm_90": "fma.rn{relu}.oob($halves)",
    "7.8 sm_90 f8": "cvt.rn[.satfinite{relu}(e4m3x2,e5m2x2)+(f32,f16x2)|{relu}.f16x2(e4m3x2,e5m2x2)]",
    "8.1 sm_89": "cvt.rn[.satfinite{relu}(e4m3x2,e5m2x2)+(f32,f16x2)|{relu}.f16x2(e4m3x2,e5m2x2)]",
    "8.0 sm_90a sm_100f sm_110f sm_120f": "setmaxnreg(inc,dec).sync.aligned.u32",
    "8.6 sm_100": """
        [add{$rnd}|sub{$rnd}|mul{$rnd}|fma($rnd)]{ftz}.f32x2 [add{$rnd}|sub{$rnd}|fma($rnd)]{sat}(f32)+(f16,bf16)
        cvt(rn,rz){relu}.satfinite.tf32.f32
        """,
    "8.6 sm_100f sm_110f sm_120a": """
        multimem.ld_reduce[{weak}|(relaxed,acquire)($scope)]{global}(add,min,max){acc::f16}($f8x4)
        multimem.st[{weak}|(relaxed,release)($scope)]{global}($f8x4)
        """,
    "8.7 sm_100a sm_103a": "cvt(rs){relu}[{satfinite}(f16x2,bf16x2)|(satfinite)(e4m3x4,e5m2x4,e2m3x4,e3m2x4,e2m1x4)]+(f32)",
    "8.8 sm_100": "[min|max]{ftz}{NaN}{abs}.f32",
    "8.6 sm_100f sm_110f sm_120f": """
        cvt.rn[.satfinite{relu}(e2m1x2,e2m3x2,e3m2x2).f32|{relu}.f16x2(e2m1x2,e2m3x2,e3m2x2)]
        cvt(rz,rp){satfinite}.ue8m0x2(f32,bf16x2) cvt.rn.bf16x2.ue8m0x2
        """,
    # ---------------------------------------------------------------------------------- memory
    "6.3 sm_75 memory": """
        ld{weak}[{$far}{$cop}|{global}{$cop,$l1}{L2::cache_hint}{$ahead}]($data) ld.volatile{$rw}{$ahead}($data)
        ld(relaxed,acquire)($scope)[{$shared}|{global}{$l1}{L2::cache_hint}{$ahead}]($data)
        ld(nc)(global){$cop,$l1}{L2::cache_hint}{$ahead}($data) ldu{global}($data)
        st{weak}[{local,param,param::func,$shared}{$wop}|{global}{$wop,$l1}{L2::cache_hint}]($data) st.volatile{$rw}($data)
        st(relaxed,release)($scope)[{$shared}|{global}{$l1}{L2::cache_hint}]($data)
        atom{$rmw}{$scope}{$rw}[(exch){L2::cache_hint}(b32,b64)|(cas){L2::cache_hint}($bits)]
        [atom{$rmw}|red{relaxed,release}]{$scope}{$rw}[(min,max){L2::cache_hint}($wide)|($bool){L2::cache_hint}(b32,b64)]
        [atom{$rmw}|red{relaxed,release}]{$scope}{$rw}[(add){L2::cache_hint}(u32,s32,u64,f32,f64)|(inc,dec){L2::cache_hint}(u32)]
        [atom{$rmw}|red{relaxed,release}]{$scope}{$rw}(add)(noftz){L2::cache_hint}(f16,f16x2)
        prefetch{global,local}(L1,L2) prefetchu.L1
        """,
    "7.4 sm_80": """
        prefetch{global}(L2::evict_last,L2::evict_normal) applypriority{global}.L2::evict_normal discard{global}.L2
        createpolicy[.fractional|.range{global}]($policy){L2::evict_first,L2::evict_unchanged}.b64 createpolicy.cvt.L2.b64
        """,
    "9.1 sm_75 memory": "[ld|st].volatile(local)($data)",
    "8.2 sm_75 memory": "[ld|st](mmio)(relaxed)(sys){global}($data)",
    "7.8 sm_90 memory": "[atom{$rmw}|red{relaxed,release}]{$scope}{$rw}(add)(noftz){L2::cache_hint}($bfloat)",
    "8.0 sm_90 memory": "prefetch{const,param,global}.tensormap",
    "8.1 sm_90 memory": """
        atom{$rmw}{$scope}{global}[(add)|(min,max)]{noftz}{L2::cache_hint}($vectors)
        red{relaxed,release}{$scope}{global}(add,min,max){noftz}{L2::cache_hint}($vectors)
        multimem.ld_reduce[{weak}|(relaxed,acquire)($scope)]{global}[(add,min,max)($wide)|($bool)(b32,b64)]
        multimem.ld_reduce[{weak}|(relaxed,acquire)($scope)]{global}(add,min,max)($halves,f32,f64,$vectors)
        multimem.st[{weak}|(relaxed,release)($scope)]{global}(f16x2,bf16x2,f32,f64,$wide,b32,b64,$vectors)
        multimem.red[|(relaxed,release)($scope)]{global}[(add)(u32,s32,u64)|(min,max)($wide)|($bool)(b32,b64)]
        multimem.red[|(relaxed,release)($scope)]{global}[(add)(f16x2,bf16x2,f32,f64,$vectors)|(min,max)($narrow)]
        """,
    "8.2 sm_90": "multimem.ld_reduce[{weak}|(relaxed,acquire)($scope)]{global}(add)(acc::f32)($halves,$vectors)",
    "8.3 sm_90 memory": "atom{$rmw}{$scope}{$rw}(exch,cas){L2::cache_hint}(b128)",
    "8.8 sm_100 memory": """
        ld[{weak}{global}|(nc)(global)]{$cop,$l1}{$l2}{L2::cache_hint}{$ahead}($data256)
        ld(relaxed,acquire)($scope){global}{$l1}{$l2}{L2::cache_hint}{$ahead}($data256)
        st[{weak}{global}{$wop,$l1}|(relaxed,release)($scope){global}{$l1}]{$l2}{L2::cache_hint}($data256)
        """,
    "8.6 sm_100 memory": "st.bulk{weak}{shared::cta}",
    # ---------------------------------------------------------------------------------- threads of a warp, a CTA, a cluster
    "6.3 sm_75 threads": """
        bar[(sync,arrive)|.red.popc.u32|.red(and,or).pred] barrier[(sync,arrive){aligned}|.red.popc{aligned}.u32|.red(and,or){aligned}.pred]
        bar.warp.sync membar(cta,gl,sys) fence{acq_rel,sc,acquire,release}($scope)
        activemask.b32 shfl.sync(up,down,bfly,idx).b32 vote[.sync.ballot|.ballot.sync].b32 vote(all,any,uni)(sync).pred match(any,all).sync(b32,b64)
        """,
    "7.5 sm_75": "[fence|membar].proxy.alias",
    "7.8 sm_75 threads": """
        bar.cta[(sync,arrive)|.red.popc.u32|.red(and,or).pred]
        barrier.cta[(sync,arrive){aligned}|.red.popc{aligned}.u32|.red(and,or){aligned}.pred]
        """,
    "7.0 sm_80 threads": "redux.sync(add,min,max)(u32,s32) redux.sync($bool).b32",
    "8.6 sm_100f": "redux.sync(min,max){abs}{NaN}.f32",
    "7.8 sm_90 threads": "barrier.cluster[.arrive|.wait]{aligned}",
    "8.0 sm_90 threads": """
        elect.sync barrier.cluster[.arrive(release,relaxed)|.wait.acquire]{aligned}
        fence.mbarrier_init.release.cluster fence.proxy.async{global,shared::cta,shared::cluster}
        """,
    "8.3 sm_90": """
        fence.proxy.tensormap::generic(acquire,release)($scope)
        tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release($scope).sync.aligned
        """,
    "8.6 sm_90": "fence[|.proxy.async::generic][(acquire).sync_restrict::shared::cluster|(release).sync_restrict::shared::cta].cluster",
    # ---------------------------------------------------------------------------------- mbarriers
    "7.0 sm_80 mbarrier": """
        mbarrier[.init|.inval|.test_wait]{$own}.b64 mbarrier.pending_count.b64 mbarrier[.arrive|.arrive_drop]{noComplete}{$own}.b64
        """,
    "7.1 sm_80 mbarrier": "mbarrier.test_wait.parity{$own}.b64",
    "8.0 sm_80": """
        mbarrier[.arrive|.arrive_drop]{noComplete}(release)(cta,cluster){$own}.b64
        mbarrier.test_wait[|.parity](acquire)(cta,cluster){$own}.b64
        """,
    "7.8 sm_90 mbarrier": "mbarrier.try_wait[|.parity]{$own}.b64",
    "8.0 sm_90 mbarrier": """
        mbarrier[.arrive|.arrive_drop][|.expect_tx][|(release)(cta,cluster)]{$shared}.b64
        mbarrier[.expect_tx|.complete_tx][|(relaxed)(cta,cluster)]{$shared}.b64
        mbarrier.try_wait[|.parity](acquire)(cta,cluster){$own}.b64
        """,
    "8.6 sm_90 mbarrier": """
        mbarrier[.arrive|.arrive_drop][|.expect_tx](relaxed)(cta,cluster){$shared}.b64
        mbarrier[.arrive|.arrive_drop](noComplete)(relaxed)(cta,cluster){$own}.b64
        mbarrier[.test_wait|.try_wait][|.parity](relaxed)(cta,cluster){$own}.b64
        """,
    # ---------------------------------------------------------------------------------- asynchronous copies
    "7.0 sm_80 copies": """
        cp.async(ca,cg)($own)+(global){L2::cache_hint}{$ahead} cp.async.commit_group cp.async.wait_group cp.async.wait_all
        cp.async.mbarrier.arrive{noinc}{$own}.b64
        """,
    "8.0 sm_90 copies": """
        cp.async.bulk.shared::cluster.shared::cta.$tx cp.async.bulk.shared::cluster.global.$tx{multicast::cluster}{L2::cache_hint}
        cp.async.bulk.global.shared::cta.bulk_group{L2::cache_hint} cp.async.bulk.prefetch.L2.global{L2::cache_hint}
        cp.async.bulk.commit_group cp.async.bulk.wait_group{read}
        cp.reduce.async.bulk.shared::cluster.shared::cta.$tx($bool,add,inc,dec,min,max)(s32,u32,s64,u64,b32,b64)
        cp.reduce.async.bulk.global.shared::cta.bulk_group{L2::cache_hint}($bool,add,inc,dec,min,max)(b32,u32,s32,b64,u64,s64,f32,f64)
        cp.reduce.async.bulk.global.shared::cta.bulk_group{L2::cache_hint}[(min,max)|(add)(noftz)](f16,bf16)
        cp.async.bulk.tensor[($dims)(shared::cluster.global){tile}|(3d,4d,5d)(shared::cluster.global)(im2col)]($tx){multicast::cluster}{L2::cache_hint}
        cp.async.bulk.tensor[($dims)(global.shared::cta){tile}|(3d,4d,5d)(global.shared::cta)(im2col_no_offs)](bulk_group){L2::cache_hint}
        cp.async.bulk.prefetch.tensor[($dims).L2.global{tile}|(3d,4d,5d).L2.global(im2col)]{L2::cache_hint}
        cp.reduce.async.bulk.tensor($dims)(global.shared::cta)($bool,add,inc,dec,min,max){tile}(bulk_group){L2::cache_hint}
        cp.reduce.async.bulk.tensor(3d,4d,5d)(global.shared::cta)($bool,add,inc,dec,min,max)(im2col_no_offs)(bulk_group){L2::cache_hint}
        """,
    "8.1 sm_90 copies": """
        st.async{weak}{shared::cluster}($tx)(b32,u32,s32,f32,b64,u64,s64,f64,v2.b32,v2.u32,v2.s32,v2.f32,v4.b32,v4.u32,v4.s32,v4.f32,v2.b64,v2.u64,v2.s64,v2.f64)
        red.async(relaxed)(cluster){shared::cluster}($tx)[(add)(u32,s32,u64)|(min,max)(u32,s32)|(inc,dec)(u32)|($bool)(b32)]
        """,
    "8.6 sm_90 copies": """
        cp.async.bulk.shared::cta.global.$tx{L2::cache_hint}
        cp.async.bulk.tensor[($dims)(shared::cta.global){tile}|(3d,4d,5d)(shared::cta.global)(im2col)]($tx){L2::cache_hint}
        """,
    "8.6 sm_100 copies": """
        cp.async.bulk.global.shared::cta.bulk_group{L2::cache_hint}(cp_mask)
        cp.async.bulk.tensor(2d)(shared::cta.global)(tile::gather4)($tx){L2::cache_hint}
        clusterlaunchcontrol.try_cancel.async{shared::cta}.$tx.b128 clusterlaunchcontrol.query_cancel.is_canceled.pred.b128
        clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128
        clusterlaunchcontrol.query_cancel(get_first_ctaid::x,get_first_ctaid::y,get_first_ctaid::z).b32.b128
        """,
    "8.7 sm_100": """
        st.async{mmio}(release)(gpu,sys){global}(b8,u8,s8,b16,u16,s16,b32,u32,s32,f32,b64,u64,s64,f64)
        red.async{mmio}(release)(gpu,sys){global}[(add)(u32,s32,u64)|(min,max)(u32,s32)|(inc,dec)(u32)|($bool)(b32)]
        """,
    "8.6 sm_100f sm_110f copies": """
        cp.async.bulk.tensor($dims)(shared::cluster.global){tile}($tx){multicast::cluster}($group){L2::cache_hint}
        cp.async.bulk.tensor($dims)(shared::cta.global){tile}($tx)($group){L2::cache_hint}
        cp.async.bulk.tensor(3d,4d,5d)(shared::cta.global,shared::cluster.global)(im2col,im2col::w,im2col::w::128)($tx){multicast::cluster}{$group}{L2::cache_hint}
        cp.async.bulk.tensor(2d)(shared::cluster.global)(tile::gather4)($tx){multicast::cluster}{$group}{L2::cache_hint}
        cp.async.bulk.tensor(2d)(shared::cta.global)(tile::gather4)($tx)($group){L2::cache_hint}
        cp.async.bulk.tensor(2d)(global.shared::cta)(tile::scatter4)(bulk_group){L2::cache_hint}
        cp.async.bulk.prefetch.tensor(2d).L2.global(tile::gather4){L2::cache_hint}
        cp.async.bulk.prefetch.tensor(3d,4d,5d).L2.global(im2col::w,im2col::w::128){L2::cache_hint}
        """,
    "8.6 sm_100f sm_110f sm_120f copies": "clusterlaunchcontrol.try_cancel.async{shared::cta}.$tx.multicast::cluster::all.b128",
    "8.3 sm_90a sm_100f sm_110f sm_120f": """
        tensormap.replace.tile[(global_address)|(global_stride)]{global,shared::cta}.b1024.b64
        tensormap.replace.tile[(rank)|($map_fields)]{global,shared::cta}.b1024.b32
        """,
    "8.6 sm_100f sm_110f sm_120f maps": "tensormap.replace.tile(swizzle_atomicity){global,shared::cta}.b1024.b32",
    # ---------------------------------------------------------------------------------- matrices
    "6.5 sm_75 matrices": """
        ldmatrix(sync)(aligned)(m8n8)(x1,x2,x4){trans}{$own}(b16) mma(sync)(aligned)(m16n8k8)(row)+(col)(f16,f32)(f16)(f16)(f16,f32)
        mma(sync)(aligned)[(m8n8k16)(row)+(col){satfinite}(s32)(u8,s8)(u8,s8)|(m8n8k32)(row)+(col){satfinite}(s32)(u4,s4)(u4,s4)](s32)
        """,
    "7.0 sm_75 matrices": "mma(sync)(aligned)(m8n8k128)(row)+(col)(s32)(b1)(b1)(s32)(xor)(popc)",
    "7.0 sm_80 matrices": """
        mma(sync)(aligned)(m16n8k16)(row)+(col)(f16,f32)(f16)(f16)(f16,f32)
        mma(sync)(aligned)(m16n8k8,m16n8k16)(row)+(col)(f32)(bf16)(bf16)(f32)
        mma(sync)(aligned)(m16n8k4,m16n8k8)(row)+(col)(f32)(tf32)(tf32)(f32) mma(sync)(aligned)(m8n8k4)(row)+(col){$rnd}(f64)(f64)(f64)(f64)
        mma(sync)(aligned)(m16n8k16,m16n8k32)(row)+(col){satfinite}(s32)(u8,s8)(u8,s8)(s32)
        mma(sync)(aligned)(m16n8k32,m16n8k64)(row)+(col){satfinite}(s32)(u4,s4)(u4,s4)(s32)
        mma(sync)(aligned)(m16n8k128,m16n8k256)(row)+(col)(s32)(b1)(b1)(s32)(xor)(popc)
        """,
    "7.1 sm_80 matrices": "mma(sync)(aligned)(m8n8k128,m16n8k128,m16n8k256)(row)+(col)(s32)(b1)(b1)(s32)(and)(popc)",
    "8.4 sm_89": "mma(sync)(aligned)(m16n8k32)(row)+(col)(f32)($f8)($f8)(f32)",
    "8.7 sm_89": "mma(sync)(aligned)(m16n8k16)(row)+(col)(f16,f32)($f8)($f8)(f16,f32) mma(sync)(aligned)(m16n8k32)(row)+(col)(f16)($f8)($f8)(f16)",
    "7.8 sm_90 matrices": """
        stmatrix(sync)(aligned)(m8n8)(x1,x2,x4){trans}{$own}(b16)
        mma(sync)(aligned)(m16n8k4,m16n8k8,m16n8k16)(row)+(col){$rnd}(f64)(f64)(f64)(f64)
        """,
    "8.7 sm_120f": "mma(sync)(aligned)(m16n8k32)(row)+(col)(kind::f8f6f4)(f16,f32)($f6)($f6)(f16,f32)",
    "8.7 sm_120f scaled": """
        mma(sync)(aligned)(m16n8k32)(row)+(col)(kind::mxf8f6f4)(block_scale){scale_vec::1X}(f32)($f6)($f6)(f32)(ue8m0)
        mma(sync)(aligned)(m16n8k64)(row)+(col)(kind::mxf4,kind::mxf4nvf4)(block_scale){scale_vec::2X}(f32)(e2m1)(e2m1)(f32)(ue8m0)
        mma(sync)(aligned)(m16n8k64)(row)+(col)(kind::mxf4nvf4)(block_scale)(scale_vec::4X)(f32)(e2m1)(e2m1)(f32)(ue4m3)
        """,
    "8.6 sm_100f sm_110f sm_120f matrices": """
        ldmatrix(sync)(aligned)(m16n16)(x1,x2)(trans){$own}(b8,b8x16.b6x16_p32,b8x16.b4x16_p64)
        ldmatrix(sync)(aligned)(m8n16)(x1,x2,x4){$own}(b8x16.b6x16_p32,b8x16.b4x16_p64)
        stmatrix(sync)(aligned)(m16n8)(x1,x2,x4)(trans){$own}(b8)
        """,
    "8.0 sm_90a": """
        wgmma[.fence|.commit_group|.wait_group].sync.aligned
        wgmma.mma_async.sync.aligned[($k16)(f16,f32)(f16)(f16)|($k16)(f32)(bf16)(bf16)|($k8)(f32)(tf32)(tf32)|($k32)(f16,f32)($f8)($f8)]
        wgmma.mma_async.sync.aligned($k32){satfinite}(s32)[(s8)(s8)|(u8)(u8)]
        wgmma.mma_async.sync.aligned($k256)(s32)(b1)(b1)(and)(popc)
        """,
    "8.2 sm_90a": """
        wgmma.mma_async.sp.sync.aligned[($k32)(f16,f32)(f16)(f16)|($k32)(f32)(bf16)(bf16)|($k16)(f32)(tf32)(tf32)|($k64)(f16,f32)($f8)($f8)]
        """,
    "8.4 sm_90a": "wgmma.mma_async.sync.aligned($k32){satfinite}(s32)(s8,u8)(s8,u8)",
    "6.3 sm_75 wmma": """
        wmma.load(a,b)(sync)(aligned)(row,col)($wmma){$own,global}(f16,u8,s8)
        wmma[.load.c|.store.d](sync)(aligned)(row,col)($wmma){$own,global}(f16,f32,s32)
        wmma.mma(sync)(aligned)(row,col)+(row,col)($wmma)[(f16,f32)+(f16,f32)|(s32)+(s8)+(s8)+(s32){satfinite}|(s32)+(u8)+(u8)+(s32){satfinite}]
        """,
    "7.0 sm_80 wmma": """
        wmma.load(a,b)(sync)(aligned)(row,col)[($wmma){$own,global}(bf16)|(m16n16k8){$own,global}(tf32)]
        wmma[.load.c|.store.d](sync)(aligned)(row,col)(m16n16k8){$own,global}(f32)
        wmma[.load(a,b,c)|.store.d](sync)(aligned)(row,col)(m8n8k4){$own,global}(f64)
        wmma.mma(sync)(aligned)(row,col)+(row,col)[($wmma)(f32)+(bf16)+(bf16)+(f32)|(m16n16k8)(f32)+(tf32)+(tf32)+(f32)]
        wmma.mma(sync)(aligned)(row,col)+(row,col)(m8n8k4){$rnd}(f64)+(f64)+(f64)+(f64)
        """,
    # ---------------------------------------------------------------------------------- tensor memory
    "8.6 sm_100f sm_110f": """
        tcgen05.alloc($group)(sync)(aligned){shared::cta}(b32) tcgen05.dealloc($group)(sync)(aligned)(b32)
        tcgen05.relinquish_alloc_permit($group)(sync)(aligned) tcgen05.fence[::before_thread_sync|::after_thread_sync]
        tcgen05.wait[::ld|::st](sync)(aligned)
        tcgen05.ld(sync)(aligned)[(32x32b,16x64b,16x32bx2)($x64,x128)|(16x128b)($x64)|(16x256b)($x32)]{pack::16b}(b32)
        tcgen05.st(sync)(aligned)[(32x32b,16x64b,16x32bx2)($x64,x128)|(16x128b)($x64)|(16x256b)($x32)]{unpack::16b}(b32)
        tcgen05.cp($group)[(128x256b,4x256b,128x128b)|(64x128b)(warpx2::02_13,warpx2::01_23)|(32x128b)(warpx4)]{b8x16.b6x16_p32,b8x16.b4x16_p64}
        tcgen05.commit($group)(mbarrier::arrive::one){shared::cluster}{multicast::cluster}(b64)
        tcgen05.mma{sp}($group)(kind::f16,kind::tf32,kind::f8f6f4){ashift}{$collector}
        tcgen05.mma.ws{sp}(cta_group::1)(kind::f16,kind::tf32,kind::f8f6f4)
        """,
    "8.6 sm_100a sm_110a": "tcgen05.mma{sp}($group)(kind::i8){ashift} tcgen05.mma.ws{sp}(cta_group::1)(kind::i8)",
    "8.6 sm_100a sm_103a sm_110a mma": """
        tcgen05.mma{sp}($group)[(kind::mxf8f6f4)(block_scale)(scale_vec::1X)|(kind::mxf4)(block_scale)(scale_vec::2X)]{$collector}
        """,
    "8.7 sm_100a sm_103a sm_110a": "tcgen05.mma{sp}($group)(kind::mxf4nvf4)(block_scale)(scale_vec::2X,scale_vec::4X){$collector}",
    "8.8 sm_100f sm_110f": """
        tcgen05.mma{sp}($group)[(kind::mxf8f6f4,kind::mxf4)(block_scale){block32}|(kind::mxf4nvf4)(block_scale)(block16,block32)]{$collector}
        """,
    "8.6 sm_100a sm_103a sm_110a": "tcgen05.shift($group)(down)",
    "8.8 sm_103f sm_110f": "tcgen05.ld.red(sync)(aligned)(32x32b,16x32bx2)(x2,x4,x8,x16,x32,x64,x128)(min,max)[(u32,s32)|{abs}{NaN}(f32)]",
}
"""First version and targets (any of them; a plain one stands for all from there on, ``a`` and ``f`` as in :class:`.Target`) -> forms."""
