import sys, re, attrs, torch
sys.path[:0]=['tests/benchmarks','tests']
import bench_round_trip as br, demos
N=br.NBYTES; rows=N//128
src=torch.randint(0,256,(N,),dtype=torch.uint8,device='cuda'); a=src.view(torch.float16).view(rows,64); b=torch.empty_like(a)
def up(p): return p.replace('.version 6.3','.version 7.8').replace('.version 7.0','.version 7.8').replace('.target sm_75','.target sm_80')
LD={'':'', 'noalloc':'.L1::no_allocate','L2_128':'.L2::128B','L2_256':'.L2::256B','noalloc256':'.L1::no_allocate.L2::256B','cs':'.cs','nc_noalloc256':'.nc.L1::no_allocate.L2::256B','evict_first':'.L1::evict_first'}
ST={'':'','cs':'.cs','noalloc':'.L1::no_allocate','wt':'.wt','cg':'.cg'}
for name in ('gmem_smem','reg','ldgsts'):
    k=getattr(br,name)(rows); base=up(k.ptx)
    for ln,l in LD.items():
        for sn,s in ST.items():
            if ln and sn and sn not in('cs','noalloc'): continue
            p=base.replace('ld.global.v4','ld.global'+l+'.v4').replace('st.global.v4','st.global'+s+'.v4')
            if name=='ldgsts':
                if l.startswith('.L2'): p=p.replace('cp.async.cg.shared.global ','cp.async.cg.shared.global'+l+' ')
                elif l: continue
            kk=attrs.evolve(k,ptx=p); 
            try: t=br.median_seconds(lambda: kk(a,b),runs=15,warm_up=2)
            except Exception as e: print(name,ln,sn,str(e)[:80]); continue
            tt=br.median_seconds(lambda: b.copy_(a),runs=8,warm_up=1)
            print(f"{name:10s} ld={ln:14s} st={sn:8s} {2*N/t/1e12:.3f} ratio {tt/t:.3f}",flush=True)
for ctas,rws,st in ((132,64,4),(132,128,4),(264,64,4),(132,128,3),(132,64,6),(264,128,3)):
    tiles=max(8, (1<<29)//(ctas*rws*256))
    A=torch.randint(0,100,(ctas*tiles*rws,64),device='cuda').float(); nb=A.numel()*4
    o=torch.zeros(ctas*rws,64,device='cuda'); r=[]
    for asy in (False,True):
        kk=demos.pipeline('sm_90',rows=rws,tiles=tiles,ctas=ctas,stages=st,asynchronous=asy); t=br.median_seconds(lambda: kk(A,o),runs=10); r.append(t)
    print('pipe',ctas,rws,st,[f"{nb/t/1e12:.2f}" for t in r], f"{r[0]/r[1]:.2f}",flush=True)
