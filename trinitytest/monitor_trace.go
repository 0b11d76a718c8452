package trinitytest

import (
	"slices"
	"strings"
	"testing"
)

// Traced is a run with a sink that also gets what the run's trace keeps, spans or tables, and with a service
// that stands in for the sink's own.
type Traced struct {
	// Keep adds a train step to the trace, as a process of the run does.
	Keep func(step int64)
	// Follow is a process of the run that follows its files with the sink, and ends. It returns what the
	// process says. With hurry it does not wait for the service at its end.
	Follow func(hurry bool) string
	// Sync sends what is missing, as trinity sync does.
	Sync func() error
	// Forget takes away the position of the sink, as a kill before it is written.
	Forget func()
	// Got returns how many spans or rollouts the service has; what it knows to be the same counts once.
	Got func() int
	// Each is how many of them a train step has.
	Each int
	// Heal ends the faults of the service.
	Heal func()
}

// Trace checks the contract of a sink with spans or tables: its service gets each of them once, whatever happens
// to requests and processes. begin makes a run whose service fails its next requests: it answers with a status,
// "loses the answer" after it has taken the request, "loses the request", or "hangs"; "" is no fault. files says
// that the service is files, which have no faults.
func Trace(t *testing.T, files bool, begin func(t *testing.T, next []string) Traced) {
	has := func(t *testing.T, r Traced, steps int) {
		t.Helper()
		if got := r.Got(); got != steps*r.Each {
			t.Errorf("the service has %d spans or rollouts, want %d of each of %d steps", got, r.Each, steps)
		}
	}
	t.Run("nothing", func(t *testing.T) {
		r := begin(t, nil)
		if said := r.Follow(false); said != "" {
			t.Errorf("said %q", said)
		}
		has(t, r, 0)
	})
	t.Run("a process resumes", func(t *testing.T) {
		r := begin(t, nil)
		for step := int64(1); step <= 3; step++ {
			r.Keep(step)
			r.Follow(false)
			has(t, r, int(step))
		}
		r.Forget()
		r.Keep(4)
		r.Follow(false)
		has(t, r, 4)
		r.Keep(5)
		for range 2 {
			if err := r.Sync(); err != nil {
				t.Error(err)
			}
			has(t, r, 5)
		}
	})
	if files {
		return
	}
	for _, fault := range []string{"429", "500", "503", "loses the answer", "loses the request"} {
		t.Run(fault, func(t *testing.T) {
			r := begin(t, slices.Repeat([]string{"", fault, fault}, 5))
			r.Keep(1)
			r.Keep(2)
			said := r.Follow(false)
			if strings.Contains(said, "trinity sync") {
				t.Errorf("said %q", said)
			}
			has(t, r, 2)
		})
	}
	for _, fault := range []string{"hangs", "403"} {
		t.Run(fault, func(t *testing.T) {
			r := begin(t, slices.Repeat([]string{fault}, 1000))
			r.Keep(1)
			if said := r.Follow(true); !strings.Contains(said, "trinity sync") || strings.Count(said, "\n") > 1 {
				t.Errorf("said %q", said)
			}
			has(t, r, 0)
			r.Heal()
			if err := r.Sync(); err != nil {
				t.Error(err)
			}
			has(t, r, 1)
		})
	}
}
