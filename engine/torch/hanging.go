package torch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/retry"
)

// rankProgress is what a rank does, as the worker tells it.
type rankProgress struct {
	Rank   int
	Host   string
	Verb   string  // "" if the rank has nothing to do
	Place  string  // file and line
	Waits  bool    // for other ranks, or for a request
	Silent float64 // seconds since its last sign of life
}

// quiet is how many seconds a rank may give no sign of life: it gives one a second.
const quiet = 5

// lateError is a request that has taken too long.
type lateError struct{ verb, model, limit, where string }

func (e *lateError) Error() string {
	return fmt.Sprintf("the worker has not answered %s of %s within timeout = %s s%s", e.verb, e.model, e.limit, e.where)
}

// locate asks the worker in which ranks a request hangs, and adds it to the error.
func (w *worker) locate(late *lateError) error {
	ctx, cancel := context.WithTimeout(context.Background(), quiet*time.Second)
	defer cancel()
	answer, err := w.client.Do(ctx, retry.Request{Method: http.MethodGet, URL: w.base + "/v1", Header: w.header(0)})
	var r reply
	if err == nil {
		r, err = decode(answer.Body)
	}
	var ranks []rankProgress
	var busy struct {
		MicroBatch int `json:"micro_batch"`
	}
	if err == nil {
		err = errors.Join(r.value("progress", &ranks), r.value("busy", &busy))
	}
	if err != nil {
		late.where = ": rank 0 gives no sign of life"
		return late
	}
	late.where = ": " + hanging(ranks)
	if busy.MicroBatch > 0 {
		late.where = fmt.Sprintf(" (micro-batch %d of the step)%s", busy.MicroBatch, late.where)
	}
	return late
}

// hanging names the ranks for which others wait: those without a sign of life, else those that
// compute. If all wait, it says where.
func hanging(ranks []rankProgress) string {
	var silent, computing, waiting []string
	for _, r := range ranks {
		name := fmt.Sprintf("rank %d on %s", r.Rank, cmp.Or(r.Host, "an unknown host"))
		switch {
		case r.Silent > quiet:
			silent = append(silent, fmt.Sprintf("%s has given no sign of life for %.0f s", name, r.Silent))
		case !r.Waits:
			computing = append(computing, fmt.Sprintf("%s is still in %s, at %s", name, r.Verb, r.Place))
		default:
			waiting = append(waiting, fmt.Sprintf("%s waits for others at %s", name, cmp.Or(r.Place, "the next request")))
		}
	}
	for _, names := range [][]string{silent, computing, waiting} {
		if n := len(names); n > 4 {
			return fmt.Sprintf("%s, and %d more", strings.Join(names[:4], "; "), n-4)
		} else if n > 0 {
			return strings.Join(names, "; ")
		}
	}
	return "no rank is known"
}
