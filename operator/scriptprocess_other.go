//go:build !linux

package operator

import (
	"fmt"
	"os"
	"runtime/metrics"
	"time"
)

// thisProgram is the one that runs.
func thisProgram() (string, error) { return os.Executable() }

// confine ends this process soon after it has taken so many bytes more than it has: the system has no limit that would refuse them.
func confine(bytes int64) error {
	begin := taken()
	go func() {
		for range time.Tick(time.Millisecond) {
			if taken()-begin > bytes {
				fmt.Fprintln(os.Stderr, "out of memory")
				os.Exit(2)
			}
		}
	}()
	return nil
}

// taken is the memory that Go has of the system, in bytes.
func taken() int64 {
	m := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(m)
	return int64(m[0].Value.Uint64() - m[1].Value.Uint64())
}
