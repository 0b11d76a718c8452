package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/weights"
)

const token = "a token of the test"

// trainer is a server over a queue with a log. Its weights are the number of their version.
type trainer struct {
	*Server
	web   *httptest.Server
	saver saver
}

// saver is an engine that writes how often it has saved.
type saver struct {
	engine.Trainer
	saves atomic.Int64
}

// SaveModel implements engine.Trainer.
func (s *saver) SaveModel(_ context.Context, dir string) error {
	n := s.saves.Add(1)
	return errors.Join(os.WriteFile(filepath.Join(dir, "model"), []byte(strconv.FormatInt(n, 10)), 0o644),
		os.WriteFile(filepath.Join(dir, "shape.json"), []byte("{}"), 0o644))
}

// train starts a trainer in a directory. If the directory has been used, the trainer resumes with
// version published.
func train(t *testing.T, dir, style string, published int64) *trainer {
	t.Helper()
	log, err := buffer.OpenLog(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	queue := buffer.NewQueue(10, 1<<20, log)
	if err := queue.Restore(trinity.SourceState{}); err != nil {
		t.Fatal(err)
	}
	tr := &trainer{}
	tr.Server = &Server{
		Buffer: queue, Weights: &weights.Shelf{Dir: dir, Engine: &tr.saver, Oldest: style == fixed},
		Style: style, Token: token, Dir: dir, Lease: time.Minute, Timeout: time.Minute,
		Say: func(line string) { t.Log(line) }, Note: func(line string) { t.Log(line) },
	}
	serving, end := context.WithCancel(context.Background())
	if err := errors.Join(tr.Weights.Open(t.Context(), published, true), tr.Open(t.Context())); err != nil {
		t.Fatal(err)
	}
	tr.web = httptest.NewServer(tr.Handler(serving))
	t.Cleanup(func() {
		end()
		tr.web.CloseClientConnections()
		tr.web.Close()
		log.Close()
	})
	return tr
}

// kill ends the trainer as a kill does: it tells nobody.
func (tr *trainer) kill() {
	tr.web.CloseClientConnections()
	tr.web.Listener.Close()
}

// place is where clients find the trainer, which may be another one after a kill.
type place struct {
	url atomic.Value
}

func (p *place) address() (address, error) {
	return address{URL: p.url.Load().(string), Token: token}, nil
}
func (p *place) String() string { return "the test" }
func (p *place) wait(ctx context.Context, d time.Duration) {
	fixedPlace{}.wait(ctx, min(d, time.Millisecond))
}
func (p *place) is(tr *trainer) { p.url.Store(tr.web.URL) }
func at(tr *trainer) *place     { p := &place{}; p.is(tr); return p }

func client(name string, p Place, timeout time.Duration) *Client {
	return NewClient(name, fixed, timeout, p)
}

// follower returns a follower that stores the version that it has loaded.
func follower(t *testing.T, c *Client, loaded *atomic.Int64) *weights.Follower {
	load := func(_ context.Context, dir string, v int64) error {
		if _, err := os.Stat(filepath.Join(dir, "shape.json")); err != nil {
			return err
		}
		loaded.Store(v)
		return nil
	}
	return &weights.Follower{Trainer: c, Dir: filepath.Join(t.TempDir(), "weights"), Load: load, Timeout: c.Timeout}
}

func TestBufferOverHTTP(t *testing.T) {
	trinitytest.Buffer(t, trinitytest.BufferOptions{Capacity: 10}, func(t *testing.T, dir string) trinitytest.Store {
		tr := train(t, dir, fixed, 0)
		first, second := client("explorer", at(tr), time.Minute), client("second", at(tr), time.Minute)
		if _, _, err := first.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		return trinitytest.Store{Explorer: first, Second: &late{Client: second}, Trainer: tr.Buffer}
	})
}

// late is a client that joins with its first delivery.
type late struct {
	*Client
	joined bool
}

func (l *late) Put(ctx context.Context, d trinity.Delivery) error {
	if !l.joined {
		l.joined = true
		if _, _, err := l.Resume(ctx); err != nil {
			return err
		}
	}
	return l.Client.Put(ctx, d)
}

// publishing and waiting are the two sides of a weights.Synchronizer.
type (
	publishing struct {
		weights.Synchronizer
		*Server
	}
	waiting struct {
		weights.Synchronizer
		*weights.Follower
	}
)

func (p publishing) Publish(ctx context.Context, v int64) error { return p.Server.Publish(ctx, v) }
func (p publishing) TrainerDone()                               { p.Weights.End() }
func (w waiting) ExplorerDone()                                 {}
func (w waiting) Held(ctx context.Context, do func(int64) error) error {
	return w.Follower.Held(ctx, do)
}
func (w waiting) Wait(ctx context.Context, min int64, newest bool) (int64, error) {
	return w.Follower.Wait(ctx, min, newest)
}

func TestSynchronizerOverHTTP(t *testing.T) {
	apart := trinitytest.SynchronizerOptions{Apart: true}
	trinitytest.Synchronizer(t, apart, func(t *testing.T, timeout time.Duration) trinitytest.Synchronized {
		tr := train(t, t.TempDir(), fixed, 0)
		var loaded atomic.Int64
		f := follower(t, client("explorer", at(tr), timeout), &loaded)
		return trinitytest.Synchronized{Trainer: publishing{Server: tr.Server}, Explorer: waiting{Follower: f}, InUse: loaded.Load}
	})
}

func mention(t *testing.T, err error, all ...string) {
	t.Helper()
	for _, want := range all {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), token) {
			t.Errorf("got %v, want an error that says %q, and not the token", err, want)
		}
	}
}

func TestJoinRefuses(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	tr.Lease = 6 * time.Second
	first := client("left", at(tr), time.Minute)
	if _, _, err := first.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	alive, die := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- first.Alive(alive) }()

	_, _, err := client("left", at(tr), time.Minute).Resume(t.Context())
	mention(t, err, "an explorer named left is alive", "host "+first.host(t), "pid "+strconv.Itoa(os.Getpid()), "explorer.name")
	_, _, err = NewClient("right", "fully_async", time.Minute, at(tr)).Resume(t.Context())
	mention(t, err, "sync_style of the explorer is fully_async, and of the trainer fixed")
	stranger, err := At(tr.web.URL, "another")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = client("right", stranger, time.Minute).Resume(t.Context())
	mention(t, err, "the token is not the trainer's", AddressFile, "TRINITY_TOKEN")
	early := client("right", at(tr), time.Second)
	early.Stage, early.Style, early.Algorithm = "rl", "fully_async", "raft" // settings of a stage that the trainer has not reached
	_, _, err = early.Resume(t.Context())
	mention(t, err, "to let explorer right join", "the trainer is at a run without stages, and the explorer belongs to stage rl",
		"synchronizer.sync_timeout of 1s passed")
	old := client("right", at(tr), time.Minute)
	body := []byte(`{"protocol":0,"sync_style":"fixed","session":"x"}`)
	err = old.request(t.Context(), address{URL: tr.web.URL, Token: token}, "POST", old.path(""), body, nil)
	mention(t, err, "version 0 of the protocol", "run the same program")

	// When the process is gone, another one gets the name at once. The first process gets an error
	// if it comes back.
	die()
	if err := <-done; err != nil {
		t.Error(err)
	}
	next := client("left", at(tr), time.Minute)
	if _, _, err := next.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	mention(t, first.Put(t.Context(), trinity.Delivery{}), "another process has joined by the name")
}

func (c *Client) host(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func group(step int64, n int) []trinity.Group {
	var g trinity.Group
	for i := range n {
		id := trinity.ExperienceID{Step: step, Task: "t", Run: i}
		g = append(g, &trinity.Experience{ID: id, Tokens: []int32{1, 2}, Mask: []bool{false, true}})
	}
	return []trinity.Group{g}
}

// A trainer that starts again after a kill has all deliveries that it acknowledged, each once. The
// explorer continues.
func TestTrainerStartsAgain(t *testing.T) {
	dir := t.TempDir()
	tr := train(t, dir, fixed, 0)
	p := at(tr)
	c := client("left", p, time.Minute)
	if _, _, err := c.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	put := func(step int64) {
		t.Helper()
		cursor := fmt.Appendf(nil, `{"step":%d}`, step)
		if err := c.Put(t.Context(), trinity.Delivery{Groups: group(step, 2), Cursor: cursor}); err != nil {
			t.Fatal(err)
		}
	}
	put(1)
	if err := c.Pause(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	tr.kill()
	p.is(train(t, dir, fixed, 0))
	put(2)

	// The acknowledgement of the third delivery is lost, so the explorer sends it again.
	put(3)
	c.delivered--
	put(3)
	tr.kill()
	again := train(t, dir, fixed, 0)
	p.is(again)
	if got := c.pausedAt(t, again); got != 3 {
		t.Errorf("the buffer knows of a pause until %d, want 3", got)
	}
	exps, err := trinitytest.Take(t.Context(), again.Buffer, 100, 0)
	if err != nil || len(exps) != 6 || exps[5].ID.Step != 3 {
		t.Fatalf("took %v, %v; want two of each of the steps 1, 2 and 3", exps, err)
	}
	// Another run does not have the acknowledged deliveries.
	p.is(train(t, t.TempDir(), fixed, 0))
	mention(t, c.Put(t.Context(), trinity.Delivery{Groups: group(4, 1)}),
		"it has 0 deliveries of explorer left, and has acknowledged 3", "start this explorer again")
}

// pausedAt returns the version until which the explorer pauses, as the trainer knows it.
func (c *Client) pausedAt(t *testing.T, tr *trainer) int64 {
	t.Helper()
	if err := c.Pause(t.Context(), c.paused-1); err != nil {
		t.Fatal(err)
	}
	if err := c.Pause(t.Context(), c.paused+1); err != nil {
		t.Fatal(err)
	}
	tr.known.mu.Lock()
	defer tr.known.mu.Unlock()
	return tr.known.byName[c.Name].Paused
}

// The trainer continues without an explorer that has lost its lease, as long as there is another.
// It waits for the last explorer.
func TestLease(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	tr.Lease = 50 * time.Millisecond
	watching, stop := context.WithCancel(t.Context())
	watched := make(chan error)
	go func() { watched <- tr.watch(watching) }()
	defer func() {
		stop()
		if err := <-watched; err != nil {
			t.Error(err)
		}
	}()
	left, right := client("left", at(tr), time.Minute), client("right", at(tr), time.Minute)
	for i, c := range []*Client{left, right} {
		if _, _, err := c.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Put(t.Context(), trinity.Delivery{Groups: group(int64(i), 1), Cursor: []byte(`1`)}); err != nil {
			t.Fatal(err)
		}
	}
	alive, die := context.WithCancel(t.Context())
	go left.Alive(alive)
	if err := left.Pause(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	exps, err := trinitytest.Take(t.Context(), tr.Buffer, 4, 0) // right never pauses
	if err != nil || len(exps) != 2 {
		t.Fatalf("took %d, %v, want what there is, 2", len(exps), err)
	}
	if who := tr.Explorers(); !strings.Contains(who, "explorer right (host "+left.host(t)) || !strings.Contains(who, "was last heard from") {
		t.Errorf("the trainer says %q of its explorers", who)
	}
	die()
	if err := tr.known.await(t.Context(), func() bool { return tr.known.byName["left"].lapsed }); err != nil {
		t.Fatal(err)
	}
	tr.known.mu.Unlock()
	taken := make(chan int)
	go func() {
		exps, _ := trinitytest.Take(t.Context(), tr.Buffer, 1, 1)
		taken <- len(exps)
	}()
	if err := right.Put(t.Context(), trinity.Delivery{Groups: group(2, 1), Cursor: []byte(`2`)}); err != nil { // right joins again
		t.Fatal(err)
	}
	if n := <-taken; n != 1 {
		t.Errorf("took %d, want the one that came", n)
	}
}

// When the deadline has passed, the error names a trainer that is gone.
func TestErrorNamesTheTrainer(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	c := client("left", at(tr), time.Minute)
	if _, _, err := c.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr.kill()
	c.Timeout = time.Second
	mention(t, c.Put(t.Context(), trinity.Delivery{}), "waiting for the trainer of the test to take delivery 1",
		"it was last reached ", "connection refused", "synchronizer.sync_timeout of 1s passed")
	_, _, err := client("left", In(t.TempDir()), time.Second).Resume(t.Context())
	mention(t, err, "to let explorer left join", "it was never reached", "no trainer has written", AddressFile)
}
