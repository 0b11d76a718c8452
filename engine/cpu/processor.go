package cpu

import (
	"errors"
	"sync"
	"time"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// Processor describes what the engine computes with on this machine.
type Processor struct {
	Cores   int    // cores that the engine uses
	Kernels string // kernel set in use
	Forced  string // setting that forces the kernel set, such as TRINITY_KERNELS=avx2; "" if the fastest is used
}

// ThisProcessor describes the processor of this machine. It is an error if the environment forces a
// kernel set that the processor cannot run.
func ThisProcessor() (Processor, error) {
	p := Processor{Cores: kernel.Cores().Used, Kernels: kernel.Active()}
	forced, err := kernel.Forced()
	if forced != "" {
		p.Forced = kernel.Variable + "=" + forced
	}
	return p, err
}

// Speed is the fastest that the kernels run on this machine with all cores.
type Speed struct {
	Product float64 // GFLOP/s of the best f32 matrix product; a multiply-add counts as two operations
	Read    float64 // GB/s read from memory
}

// MeasureSpeed times matrix products whose operands stay in the caches, and passes over an array of
// 256 MiB that does not fit them. The shortest time of each counts. It takes about a second.
func MeasureSpeed() (Speed, error) {
	return measure(40, 1<<15, [][3]int{{576, 512, 256}, {1152, 512, 256}, {1152, 1024, 256}, {2304, 512, 512}})
}

// briefSpeed is MeasureSpeed in a tenth of the time, with an array of 64 MiB.
var briefSpeed = sync.OnceValues(func() (Speed, error) { return measure(6, 1<<13, [][3]int{{1152, 512, 256}}) })

// Speed returns operations and bytes a second: those of matrix products, and of reads from memory.
func (trainerPlugin) Speed() (operations, bytes float64, err error) {
	s, err := briefSpeed()
	return s.Product * 1e9, s.Read * 1e9, err
}

// Speed is that of the trainer.
func (samplerPlugin) Speed() (operations, bytes float64, err error) { return trainerPlugin{}.Speed() }

// measure times so many products of each shape, and passes over n rows of 8 KiB.
func measure(runs, n int, shapes [][3]int) (s Speed, err error) {
	pool, arena := kernel.NewPool(0), kernel.NewArena()
	defer func() { err = errors.Join(err, arena.Free()) }()
	defer pool.Close()
	for _, shape := range shapes {
		m, n, k := shape[0], shape[1], shape[2]
		product, err := newProduct(pool, arena, m, n, k)
		if err != nil {
			return s, err
		}
		s.Product = max(s.Product, 2*float64(m*n*k)/fastest(runs, product)/1e9)
	}
	const k = 2048
	size := float64(4 * n * k)
	product, err := newProduct(pool, arena, 1, n, k)
	if err != nil {
		return s, err
	}
	passes := max(runs/3, 3)
	s.Read = size / fastest(passes, product) / 1e9
	data, err := arena.Float32(n * k)
	if err != nil {
		return s, err
	}
	kernel.Touch(pool, data)
	const parts = 64
	scan := func(part int) { kernel.Max(data[part*n*k/parts : (part+1)*n*k/parts]) }
	s.Read = max(s.Read, size/fastest(passes, func() { pool.Run(parts, scan) })/1e9)
	return s, nil
}

// newProduct returns a function that computes y[m, n] = x[m, k]·w with packed weights w.
func newProduct(pool *kernel.Pool, arena *kernel.Arena, m, n, k int) (func(), error) {
	x, errX := arena.Float32(m * k)
	y, errY := arena.Float32(m * n)
	w, errW := kernel.NewPacked(arena, n, k, kernel.F32)
	if err := errors.Join(errX, errY, errW); err != nil {
		return nil, err
	}
	w.Pack(pool, kernel.NewMatrix(make([]float32, n*k), n, k).T())
	return func() {
		kernel.MatMulPacked(pool, kernel.NewMatrix(y, m, n), kernel.NewMatrix(x, m, k), w, false)
	}, nil
}

// fastest returns the duration in seconds of the shortest of n calls, after one call to warm up.
func fastest(n int, call func()) float64 {
	call()
	best := time.Hour
	for range n {
		start := time.Now()
		call()
		best = min(best, time.Since(start))
	}
	return best.Seconds()
}
