package fleet

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
)

// A trainer that has no room for a body, or got it too slowly, says so in the status, and the
// explorer tries again. A body that is too long stays too long.
func TestStatusesOfBodiesPassThrough(t *testing.T) {
	for status, again := range map[int]bool{
		http.StatusServiceUnavailable: true, http.StatusRequestTimeout: true, http.StatusTooManyRequests: true,
		http.StatusBadRequest: false, http.StatusRequestEntityTooLarge: false,
	} {
		w := httptest.NewRecorder()
		answer(w, nil, &bodyError{status, fmt.Errorf("%w: %w", errBad, errors.New("why"))})
		if w.Code != status || !strings.Contains(w.Body.String(), "why") {
			t.Errorf("status %d: the reply is %d %s", status, w.Code, w.Body)
		}
		if err := refusedBy(address{}, w.Result()); retry.IsTemporary(err) != again || !strings.Contains(err.Error(), "why") {
			t.Errorf("status %d: %v; temporary: %v", status, err, retry.IsTemporary(err))
		}
	}
}

// A trainer refuses a body with the status that reading it gave.
func TestReceiveKeepsTheStatus(t *testing.T) {
	var refused *bodyError
	long := httptest.NewRequest(http.MethodPut, "/", strings.NewReader("12345"))
	if _, err := receive(httptest.NewRecorder(), long, 4); !errors.As(err, &refused) ||
		refused.status != http.StatusRequestEntityTooLarge || !errors.Is(err, errBad) {
		t.Errorf("%v", err)
	}
	if _, err := receive(httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, "/", broken{}), 4); !errors.As(err, &refused) ||
		refused.status != http.StatusBadRequest {
		t.Errorf("%v", err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }

// An explorer sends a delivery again to a trainer that had no room for it.
func TestDeliveryAfterNoRoom(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	refusals := []int{http.StatusServiceUnavailable, http.StatusRequestTimeout}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && len(refusals) > 0 {
			refuse(w, refusals[0], errors.New("no room"))
			refusals = refusals[1:]
			return
		}
		tr.Handler(t.Context()).ServeHTTP(w, r)
	}))
	defer proxy.Close()
	p := &place{}
	p.url.Store(proxy.URL)
	c := client("left", p, time.Minute)
	if _, _, err := c.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Put(t.Context(), trinity.Delivery{Groups: group(1, 1), Cursor: []byte(`7`)}); err != nil || len(refusals) > 0 {
		t.Errorf("%v; %d refusals are left", err, len(refusals))
	}
}

// A trainer keeps no delivery that is larger than the largest. The explorer says so before it sends it.
func TestTooLargeDelivery(t *testing.T) {
	mention(t, tooLarge(maxDelivery+1), "a delivery of 1073741825 bytes; it may have 1073741824: use a smaller buffer.batch_size")
	req := httptest.NewRequest(http.MethodPut, "/", strings.NewReader(""))
	req.ContentLength = maxDelivery + 1
	if _, err := readDelivery(httptest.NewRecorder(), req); !errors.Is(err, errConflict) {
		t.Error(err)
	}
}
