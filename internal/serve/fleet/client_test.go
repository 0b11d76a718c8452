package fleet

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A trainer that lost acknowledged deliveries belongs to another run. A delivery that it
// acknowledges while the explorer joins again does not count as lost.
func TestRejoinDetectsAnotherRun(t *testing.T) {
	for _, c := range []struct {
		before, meanwhile int64 // acknowledged
		wrong             bool
	}{{6, 7, false}, {6, 6, false}, {7, 7, true}} {
		client := NewClient("e", fixed, time.Minute, nil)
		client.delivered = c.before
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			client.mu.Lock()
			defer client.mu.Unlock()
			client.delivered = c.meanwhile
			fmt.Fprint(w, `{"delivered": 6}`)
		}))
		err := client.rejoin(t.Context(), address{URL: server.URL}, 0)
		if (err != nil) != c.wrong || err != nil && !strings.Contains(err.Error(), "its run is another") {
			t.Errorf("%+v: %v", c, err)
		}
		server.Close()
	}
}

// An explorer reports, once, that it waits for a trainer. It does not report a trainer that is
// about to start.
func TestClientReportsAMissingTrainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		c := client("left", &place{}, time.Hour)
		c.Say = func(line string) { said = append(said, line) }
		fails := func() { c.missed("take delivery 3", errors.New("connection refused")) }
		fails()
		time.Sleep(reportAfter - 1)
		fails()
		c.answered()
		fails()
		time.Sleep(reportAfter - 1)
		fails()
		if len(said) > 0 {
			t.Fatalf("said %q too early", said)
		}
		time.Sleep(time.Nanosecond)
		fails()
		time.Sleep(time.Minute)
		fails()
		c.answered()
		c.answered()
		want := []string{
			"the trainer of the test does not take delivery 3: connection refused; " +
				"explorer left retries until synchronizer.sync_timeout of 1h0m0s has passed",
			"the trainer of the test is there again, after 1m3s",
		}
		if !slices.Equal(said, want) {
			t.Errorf("said %q, want %q", said, want)
		}
	})
}
