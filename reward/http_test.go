package reward

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// service answers what the reply says, or with the status that it says.
func service(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Response string }
		_ = json.NewDecoder(r.Body).Decode(&q) // the answer says what is wrong
		status := 0
		if _, err := fmt.Sscanf(q.Response, "status %d", &status); err == nil {
			http.Error(w, "no reward", status)
			return
		}
		if q.Response == "hang" {
			<-r.Context().Done()
			return
		}
		if r.Header.Get("Authorization") != "Bearer x" || r.Header.Get("Content-Type") != "application/json" {
			http.Error(w, "headers", http.StatusForbidden)
			return
		}
		fmt.Fprint(w, q.Response)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestAServiceScoresReplies(t *testing.T) {
	url := service(t)
	fn := build(t, "http", map[string]any{"url": url, "headers": map[string]any{"Authorization": "Bearer x"}, "max_retry_interval": 0})
	for answer, want := range answered {
		if got := describe(fn.Score(t.Context(), asked(nil, answer))); !matches(got, want) {
			t.Errorf("%s: got %s, want %s", answer, got, want)
		}
	}
	for reply, want := range map[string]string{
		"status 404": "POST " + url + ", attempt 1: 404 Not Found: no reward",
		"status 503": "attempt 4: 503",
	} {
		if got := describe(fn.Score(t.Context(), asked(nil, reply))); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", reply, got, want)
		}
	}
}

func TestASlowServiceGivesNoReward(t *testing.T) {
	fn := build(t, "http", map[string]any{"url": service(t), "timeout": 0.02, "max_retry_times": 0})
	if got := describe(fn.Score(t.Context(), asked(nil, "hang"))); !strings.Contains(got, "no answer within timeout = 0.02 s") {
		t.Error(got)
	}
}

func TestABusyServiceIsWaitedFor(t *testing.T) {
	h := build(t, "http", map[string]any{"url": service(t), "workers": 1}).(*httpReward)
	h.slots <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if got := describe(h.Score(ctx, trinity.RewardInput{})); !strings.Contains(got, "all 1 workers are busy") {
		t.Error(got)
	}
}
