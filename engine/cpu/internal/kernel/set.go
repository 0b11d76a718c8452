package kernel

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// lanes is the width that every vector kernel works in: a reduction sums element i into lane i mod
// 16, each lane in increasing i, then folds 16 lanes to 8, 4, 2, 1. It is one AVX-512, two AVX2 or
// four NEON registers, so that all sets give the same bits.
const lanes = 16

// tileFunc computes tiles of up to kernels.rows rows and panels*16 columns, several below one
// another: C[r, 16p+j] = (accumulate ? C[r, 16p+j] : 0) + Σ_k A[r, k]·B[k, 16p+j], one fused chain
// per element in increasing k. All strides are in bytes: A[r, k] of group g is at a + g*ags + r*ars
// + k*aks, the 16 columns of panel p at b + k*bks + p*bps; the groups' rows of C follow one
// another. Meanwhile b + ahead + (g*kc+k)*aheadStep + p*bps is prefetched.
type tileFunc func(groups, kc int, a unsafe.Pointer, ars, aks, ags int, b unsafe.Pointer, bks, bps, ahead, aheadStep int, c unsafe.Pointer, ldc, accumulate int)

// dealFunc deals the floats of n rows out to groups: group g gets row k's floats [g*size, (g+1)*size)
// as its own row k. Rows of src are lds bytes apart, groups of dst stride bytes, and rows of a group
// follow one another. n and groups are more than 0.
type dealFunc func(dst, src unsafe.Pointer, lds, n, groups, stride int)

// kernels is the table of one set. Vector lengths n are multiples of lanes, n > 0.
type kernels struct {
	name  string
	rows  int                      // most rows of a tile
	tiles [maxRows + 1][4]tileFunc // by rows and log2 of panels; nil where registers do not suffice
	// tilesPairs is the same with B stored as pairs of bf16: a row of B holds the numbers of two
	// neighbouring k, the first one in the lower halves of its 32-bit words. kc, bks and aheadStep count
	// such rows.
	tilesPairs [maxRows + 1][4]tileFunc
	transpose  func(dst, src unsafe.Pointer, lds, n int)
	dealTile   dealFunc // groups of rows floats
	dealPanel  dealFunc // groups of lanes floats
	int8       *int8Kernels

	dot        func(x, y *float32, n int) float32
	dot3       func(x, y, z *float32, n int) float32
	max        func(x *float32, n int) float32
	axpy       func(y, x *float32, a float32, n int)
	add        func(y, x *float32, n int)
	scale      func(y, x *float32, a float32, n int)
	scaleMul   func(y, x, w *float32, a float32, n int)
	normDX     func(dx, dy, x, w *float32, rstd, c float32, n int)
	mulAdd     func(dw, dy, x *float32, rstd float32, n int)
	exp        func(y, x *float32, n int)
	expSum     func(y, x *float32, m float32, n int) float32
	entropySum func(x *float32, m float32, sums *[2]float32, n int)
	logitGrad  func(x *float32, lse, a, b float32, n int)
	swiglu     gating
	swigluGrad gatingGrad
	geglu      gating
	gegluGrad  gatingGrad
	rotate     func(x0, x1, cos, sin *float32, sign float32, n int)
	softGrad   func(dp, p *float32, delta, scale float32, n int)
	adamw      func(p, g, m, v *float32, c *adamConstants, n int)
	toBF16     func(dst *uint16, src *float32, n int)
	fromBF16   func(dst *float32, src *uint16, n int)
}

// maxRows is the most rows of a tile in any set.
const maxRows = 12

var (
	active     atomic.Pointer[kernels]
	chooseOnce sync.Once
)

// sets are the sets that this processor can run, the most capable first; portable is the last.
var sets = append(nativeSets(), &portable)

// Available returns the names of the kernel sets that this processor can run: "avx512", "avx2",
// "neon", "portable".
func Available() []string {
	names := make([]string, len(sets))
	for i, s := range sets {
		names[i] = s.name
	}
	return names
}

// Active returns the name of the set in use. It chooses a set if none is in use yet.
func Active() string { return current().name }

// choose times the available sets for a few milliseconds and makes the fastest one active. It skips
// sets that give other bits than portable on this processor, unless [Variable] names them. Nothing
// else may compute meanwhile, because each set is active while choose tries it. Processor flags do
// not say which set is faster: AVX-512 is twice as fast as AVX2 on some processors and no faster on
// others.
func choose() string {
	usable := agreeing()
	best, bestTime := usable[0], time.Duration(0)
	speeds = nil
	for i, s := range usable {
		if s == &portable && len(usable) > 1 {
			continue
		}
		t := s.trial()
		speeds = append(speeds, Speed{Set: s.name, GFLOPS: 2 * trialM * trialN * trialK / float64(t.Nanoseconds())})
		if i == 0 || t < bestTime*97/100 {
			best, bestTime = s, t
		}
	}
	if s := forced(); s != nil {
		best = s
	}
	active.Store(best)
	return best.name
}

// current returns the active set.
func current() *kernels {
	if k := active.Load(); k != nil {
		return k
	}
	settle()
	return active.Load()
}

// settle chooses a set if none is active, or waits until another goroutine has. Code that starts
// goroutines calls it first, because choose makes each set active while it tries it.
func settle() {
	chooseOnce.Do(func() {
		if active.Load() == nil {
			choose()
		}
	})
}

// trialM, trialN and trialK are the shape of the product that choose times.
const trialM, trialN, trialK = 96, 64, 256

// Speed is the speed of one core in the trial product.
type Speed struct {
	Set    string
	GFLOPS float64
}

var speeds []Speed

// Speeds returns the measurements behind the choice of the active set, the most capable set first.
func Speeds() []Speed { return speeds }

// trial returns the best time of a product that fits the second-level cache.
func (ks *kernels) trial() time.Duration {
	const m, n, k = trialM, trialN, trialK
	a, b, c := alignedFloats(m*k), alignedFloats(n*k), alignedFloats(m*n)
	best := time.Hour
	for range 12 {
		start := time.Now()
		ks.product(operandC{c, n}, rowMajor(a, k), panelMajor(b, k), m, n, k, false)
		best = min(best, time.Since(start))
	}
	return best
}
