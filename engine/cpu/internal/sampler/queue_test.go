package sampler

import (
	"context"
	"runtime"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
)

// heap is the bytes of live objects.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestTenThousandRequestsWait queues them at once. They take no memory but their own, are begun in
// order of arrival and leave nothing behind.
func TestTenThousandRequestsWait(t *testing.T) {
	const requests, prompts = 10_000, 40
	s := start(t, tiny(t, "llama"), Options{MaxSequences: 64, MaxTokens: 1024})
	p := func(i int) trinity.SamplingParams {
		return trinity.SamplingParams{Temperature: 1, MaxTokens: 1 + i%2, Seed: uint64(i), IgnoreEOS: true}
	}
	prompt := func(i int) []int32 { return []int32{2, int32(3 + i/8%prompts), 4} }
	want := map[int][]trinity.Completion{}
	for i, alone := 0, start(t, tiny(t, "llama"), Options{}); i < requests; i += 100 {
		want[i] = sample(t, alone, prompt(i), p(i))
	}
	planned := s.arena.Bytes()
	before := heap()
	var begun []int
	queued := make([]*request, requests)
	s.gate.Lock()
	for i := range queued {
		params := p(i)
		params.OnToken = func(int, trinity.Sampled) {
			if len(begun) == 0 || begun[len(begun)-1] != i && !slices.Contains(begun[max(0, len(begun)-200):], i) {
				begun = append(begun, i)
			}
		}
		r, err := s.newRequest(prompt(i), params)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.inbox.push(r); err != nil {
			t.Fatal(err)
		}
		queued[i] = r
	}
	if grown := heap() - before; grown > requests*2048 {
		t.Errorf("%d bytes for %d queued requests", grown, requests)
	}
	s.gate.Unlock()
	for i, r := range queued {
		got, err := r.wait(context.Background(), s.inbox)
		if err != nil || len(got[0].Tokens) != 1+i%2 {
			t.Fatalf("request %d: %v, %v", i, got, err)
		}
		if i%100 == 0 && !same(got, want[i]) {
			t.Errorf("request %d: %v", i, got)
		}
	}
	stats := s.Stats()
	if stats.Sampled != requests*3/2 || stats.Hits+stats.Prompts != requests || stats.Queued+stats.Running != 0 || stats.Cached > 1024 {
		t.Errorf("%+v", stats)
	}
	if len(begun) != requests {
		t.Fatalf("%d requests told of tokens", len(begun))
	}
	for at, i := range begun {
		if at-i > 64 || i-at > 64 {
			t.Errorf("request %d was begun as number %d", i, at)
		}
	}
	checkPages(t, s)
	if s.arena.Bytes() != planned || cap(s.inbox.queue.items) > 64 {
		t.Errorf("%d bytes of the arena, %d planned; room for %d queued requests", s.arena.Bytes(), planned, cap(s.inbox.queue.items))
	}
	clear(queued)
	if left := heap() - before; left > 1<<20 {
		t.Errorf("%d bytes are left behind", left)
	}
}

func TestQueueKeepsOrderAndForgets(t *testing.T) {
	var q queue
	next, first := int64(0), int64(0)
	for round := range 200 {
		for range (round * 7) % 13 {
			q.push(&request{id: next})
			next++
		}
		for range (round * 5) % 12 {
			r := q.first()
			if r == nil {
				break
			}
			if r.id != first {
				t.Fatalf("request %d comes first, want %d", r.id, first)
			}
			q.pop()
			first++
		}
		if q.len() != int(next-first) {
			t.Fatalf("%d wait, want %d", q.len(), next-first)
		}
	}
	q.keep(func(r *request) bool { return r.id%2 == 0 })
	for r := q.first(); r != nil; r = q.first() {
		if r.id%2 != 0 {
			t.Errorf("request %d is still there", r.id)
		}
		q.pop()
	}
	for _, r := range q.items[:cap(q.items)] {
		if r != nil {
			t.Error("a request that is gone is still referred to")
		}
	}
}
