package buffer

import (
	"github.com/trinity-go/trinity/trinitytest"
	"testing"

	"github.com/trinity-go/trinity"
)

// BenchmarkQueue puts and takes experiences of 512 tokens, 64 at a time. bytes/exp is what one
// takes in the log.
func BenchmarkQueue(b *testing.B) {
	const n = 64
	g := make(trinity.Group, n)
	for i := range g {
		g[i] = &trinity.Experience{
			Tokens: make([]int32, 512), Mask: make([]bool, 512), Logprobs: make([]float32, 512), Advantages: make([]float32, 512),
		}
	}
	d := trinity.Delivery{Groups: []trinity.Group{g}}
	measure := func(b *testing.B, q *Queue) {
		sink := q.Sink("")
		for b.Loop() {
			if err := sink.Put(b.Context(), d); err != nil {
				b.Fatal(err)
			}
			if _, err := trinitytest.Take(b.Context(), q, n, 0); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "exp/s")
	}
	b.Run("memory", func(b *testing.B) { measure(b, NewQueue(1000, 0, nil)) })
	for name, memory := range map[string]int64{"durable": 1 << 30, "durable, read back": 0} {
		b.Run(name, func(b *testing.B) {
			log, err := OpenLog(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			defer log.Close()
			measure(b, NewQueue(1000, memory, log))
			record, err := appendRecord(nil, newRecord("", 1, d))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(len(record))/n, "bytes/exp")
		})
	}
}
