//go:build unix

package archive

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/trinitytest/server"
)

func TestArchivesOnServers(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *server.Server{"PostgreSQL": server.Postgres, "MariaDB": server.MariaDB} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			stepsAreKept(t, s.URL+"#project/kept")
			replacesSteps(t, s.URL+"#project/run")
			otherArchivesStay(t, s.URL+"#project/other")
			killed(t, s)
		})
	}
}

// killed kills a server several times while steps are written. Each step is then there once, in
// order.
func killed(t *testing.T, s *server.Server) {
	const steps, each = 24, 8
	path := s.URL + "#project/killed"
	w := writer(t, path)
	at, done := make(chan int64, steps), make(chan error, 1)
	go func() {
		defer close(at)
		for step := range int64(steps) {
			if err := w.Write(t.Context(), step+1, ofStep(step+1, each)); err != nil {
				done <- err
				return
			}
			at <- step
		}
		done <- nil
	}()
	rng := rand.New(rand.NewPCG(3, 4))
	for step := range at {
		if step%12 == 5 {
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond) // into the next transaction
			s.Kill(t)
			s.Start(t)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var want []string
	for step := range steps {
		for run := range each {
			want = append(want, fmt.Sprintf("%d.%d", step+1, run))
		}
	}
	if got := written(t, path); got != strings.Join(want, " ") {
		t.Errorf("it has %s", got)
	}
}
