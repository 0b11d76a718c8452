package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// trainer is a sink that keeps the deliveries it acknowledged, as a trainer's buffer does.
type trainer struct {
	got    []trinity.Delivery
	fail   error // of the next Put, which then has no effect
	ended  bool
	forget bool // fail reaches the explorer although the trainer has the delivery
}

func (s *trainer) Resume(context.Context) (int64, json.RawMessage, error) {
	if s.ended {
		return 0, nil, trinity.ErrEnded
	}
	if len(s.got) == 0 {
		return 0, nil, nil
	}
	return int64(len(s.got)), s.got[len(s.got)-1].Cursor, nil
}

func (s *trainer) Put(_ context.Context, d trinity.Delivery) error {
	if s.fail == nil || s.forget {
		s.got = append(s.got, d)
	}
	return s.fail
}

func (s *trainer) Pause(context.Context, int64) error { return nil }
func (s *trainer) Close(context.Context) error        { return nil }

// site is a server of real traffic that may be started again.
type site struct {
	t *testing.T
	TrafficOptions
	trainer *trainer
	policy  *policy
	traffic *Traffic
	server  *httptest.Server
	said    []string
	metrics []trinity.Metrics // of the deliveries
}

func newSite(t *testing.T, o TrafficOptions) *site {
	t.Helper()
	s := &site{t: t, trainer: &trainer{}, policy: &policy{}}
	o.Dir, o.Token, o.Name, o.Timeout, o.Waiting, o.Renderer, o.Vocabulary = t.TempDir(), "the token", "m", time.Minute, 9, chatty{}, 257
	if o.Expiry == 0 {
		o.Expiry = time.Hour
	}
	o.Group, o.Batch = max(1, o.Group), max(1, o.Batch)
	o.Sink, o.Say = s.trainer, func(line string) { s.said = append(s.said, line) }
	o.Process = func(_ context.Context, _ int64, groups []trinity.Group, metrics trinity.Metrics) ([]trinity.Group, error) {
		s.metrics = append(s.metrics, metrics)
		return groups, nil
	}
	o.Model = func() *trinity.Model {
		params := trinity.SamplingParams{Temperature: 0.5, MaxTokens: 40}
		return &trinity.Model{Sampler: s.policy, Renderer: chatty{}, MaxModelLen: 200, Params: params}
	}
	s.TrafficOptions = o
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *site) start() {
	s.t.Helper()
	var err error
	if s.traffic, err = OpenTraffic(s.t.Context(), s.TrafficOptions); err != nil {
		s.t.Fatal(err)
	}
	if _, err = s.traffic.Resume(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.server = httptest.NewServer(s.traffic.Handler(http.NotFoundHandler()))
}

func (s *site) stop() {
	s.server.Close()
	if err := s.traffic.Close(); err != nil {
		s.t.Error(err)
	}
}

func (s *site) restart() { s.t.Helper(); s.stop(); s.start() }

// ask posts with a key, or the token.
func (s *site) ask(key, path, body string, header ...string) (status int, text string) {
	s.t.Helper()
	e := &endpoint{Endpoint: address{s.server.URL + "/v1", key}, t: s.t}
	return e.ask(path, body, append(header, "Authorization", "Bearer "+key)...)
}

// address is an endpoint for a client that has a key.
type address struct{ url, key string }

func (a address) URL() string                        { return a.url }
func (a address) Key() string                        { return a.key }
func (a address) Close() (*trinity.Recording, error) { return nil, errors.ErrUnsupported }

// must asks and wants status 200.
func (s *site) must(key, path, body string, header ...string) string {
	s.t.Helper()
	status, text := s.ask(key, path, body, header...)
	if status != http.StatusOK {
		s.t.Fatalf("%s: %d %s", path, status, text)
	}
	return text
}

// begin begins a rollout and returns its key.
func (s *site) begin(body string) string {
	s.t.Helper()
	var b rolloutReply
	if err := json.Unmarshal([]byte(s.must(s.Token, "/rollouts", body)), &b); err != nil || b.Expiry != s.Expiry.Seconds() {
		s.t.Fatal(err, b)
	}
	return b.Key
}

// deliver delivers what is complete at a time.
func (s *site) deliver(now time.Time) error {
	s.t.Helper()
	if out := s.traffic.outgoing(); out != nil {
		return s.traffic.deliver(s.t.Context(), out)
	}
	for {
		out, _, err := s.traffic.take(now)
		if err == nil && out != nil {
			err = s.traffic.deliver(s.t.Context(), out)
		}
		if err != nil || out == nil {
			return err
		}
	}
}

// trained returns how often the trainer got each reply, by its text with the reward.
func (s *site) trained() map[string]int {
	got := map[string]int{}
	for _, d := range s.trainer.got {
		for _, g := range d.Groups {
			for _, e := range g {
				if err := e.Check(); err != nil {
					s.t.Error(err)
				}
				got[fmt.Sprintf("%s=%v", e.Response, e.Reward.Value)]++
			}
		}
	}
	return got
}

func (s *site) wants(want ...string) {
	s.t.Helper()
	got := s.trained()
	for text, n := range got {
		if n != 1 {
			s.t.Errorf("the trainer got %q %d times", text, n)
		}
	}
	if texts := slices.Sorted(maps.Keys(got)); !slices.Equal(texts, want) {
		s.t.Errorf("the trainer got %q, want %q", texts, want)
	}
}

// A rollout waits for its reward and its commit across restarts. Then its key has ended.
func TestTrafficWaitsAcrossRestarts(t *testing.T) {
	s := newSite(t, TrafficOptions{})
	key := s.begin("{}")
	s.must(key, chat, says("user:say 'one'"))
	s.restart()
	s.must(key, chat, says("user:say 'two'"))
	s.must(key, "/reward", `{"value": 0.25}`)
	s.must(key, "/reward", `{"value": 0.5, "parts": {"kind": 1}}`)
	s.restart()
	if err := s.deliver(time.Now()); err != nil || len(s.trainer.got) != 0 {
		t.Errorf("%v; the trainer got %v before the commit", err, s.trained())
	}
	if text := s.must(key, "/rollout", ""); !strings.Contains(text, `"calls":2`) || strings.Count(text, `"received":true`) != 2 {
		t.Error(text)
	}
	s.must(key, "/commit", "{}")
	for range 2 {
		for path, body := range map[string]string{"/reward": `{"value": 1}`, "/commit": "{}", chat: says("user:'late'")} {
			if status, text := s.ask(key, path, body); status != http.StatusConflict || !strings.Contains(text, "rollout_ended") {
				t.Errorf("%s after the commit: %d %s", path, status, text)
			}
		}
		s.restart()
	}
	if err := s.deliver(time.Now()); err != nil {
		t.Fatal(err)
	}
	s.wants("one=0.5", "two=0.5")
	if status, _ := s.ask(key, "/reward", `{"value": 1}`); status != http.StatusConflict {
		t.Errorf("a reward after the delivery: %d", status)
	}
	if status, _ := s.ask("tr-unknown", "/reward", `{"value": 1}`); status != http.StatusUnauthorized {
		t.Errorf("an unknown key: %d", status)
	}
	e := s.trainer.got[0].Groups[0][0]
	if e.Versions != [2]int64{3, 4} || e.Temperature != 0.5 || e.Metrics["turns"] != 2 || e.ID.Step != 1 {
		t.Errorf("%+v", e)
	}
}

// A chat that comes back is one sequence. Its own tokens are learnt, those of the client are not.
func TestTrafficContinuesASequence(t *testing.T) {
	s := newSite(t, TrafficOptions{})
	key := s.begin("{}")
	s.must(key, chat, says("user:'a'"))
	s.must(key, chat, says("user:'a'", "assistant:a", "user:'b'"))
	s.must(key, chat, says("user:'a'", "assistant:a", "user:'c'"))
	s.must(key, "/reward", `{"value": 1}`)
	s.must(key, "/commit", "{}")
	if err := s.deliver(time.Now()); err != nil {
		t.Fatal(err)
	}
	s.wants("b=1", "c=1")
	learnt := 0
	for _, e := range s.trainer.got[0].Groups[0] {
		learnt += e.TrainedTokens()
	}
	if want := 3 * 2; learnt != want { // a letter and the end each
		t.Errorf("%d tokens are learnt, want %d", learnt, want)
	}
}

// Whatever happens at a delivery, the trainer gets each rollout once.
func TestTrafficIsDeliveredOnce(t *testing.T) {
	for name, lost := range map[string]trainer{
		"the trainer has it":  {fail: errors.New("the connection is lost"), forget: true},
		"the trainer has not": {fail: errors.New("the connection is lost")},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, TrafficOptions{})
			for _, text := range []string{"a", "b"} {
				key := s.begin("{}")
				s.must(key, chat, says("user:'"+text+"'"))
				s.must(key, "/reward", `{"value": 1}`)
				s.must(key, "/commit", "{}")
			}
			*s.trainer = lost
			if err := s.deliver(time.Now()); err == nil {
				t.Fatal("no error")
			}
			s.trainer.fail = nil
			s.restart()
			if err := errors.Join(s.deliver(time.Now()), s.deliver(time.Now())); err != nil {
				t.Fatal(err)
			}
			s.wants("a=1", "b=1")
		})
	}
}

// A rollout that gets no reward in time is counted and not trained. So is one that failed.
func TestTrafficExpires(t *testing.T) {
	s := newSite(t, TrafficOptions{Expiry: time.Minute})
	late, failed, good := s.begin("{}"), s.begin("{}"), s.begin("{}")
	for _, key := range []string{late, failed, good} {
		s.must(key, chat, says("user:'"+key+"'"))
	}
	if status, text := s.ask(late, "/commit", "{}"); status != http.StatusBadRequest || !strings.Contains(text, "no reward") {
		t.Errorf("a commit without a reward: %d %s", status, text)
	}
	s.must(failed, "/fail", `{"kind": "tool", "reason": "no connection"}`)
	s.must(failed, "/commit", "{}")
	s.must(good, "/reward", `{"value": 1}`)
	s.must(good, "/commit", "{}")
	if _, _, err := s.traffic.take(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	s.restart()
	if err := s.deliver(time.Now()); err != nil {
		t.Fatal(err)
	}
	s.wants(good + "=1")
	want := trinity.Metrics{"expired_count": 1, "failed_tool_count": 1, "pending_count": 1}
	if len(s.metrics) != 1 || !maps.Equal(s.metrics[0], want) {
		t.Errorf("the metrics are %v, want %v", s.metrics, want)
	}
	if len(s.said) != 1 || !strings.Contains(s.said[0], "expired_count:1 failed_tool_count:1") {
		t.Errorf("%q", s.said)
	}
	s.traffic.dropIdle(time.Now())
	if status, _ := s.ask(late, "/reward", `{"value": 1}`); status != http.StatusConflict {
		t.Errorf("a reward after the expiry: %d", status)
	}
}

// The rollouts of a group go to the trainer together.
func TestTrafficIsGrouped(t *testing.T) {
	s := newSite(t, TrafficOptions{Group: 2, Compares: true, Expiry: time.Minute})
	if status, text := s.ask(s.Token, "/rollouts", "{}"); status != http.StatusBadRequest || !strings.Contains(text, `"param":"group"`) {
		t.Errorf("no group: %d %s", status, text)
	}
	if status, _ := s.ask("another", "/rollouts", `{"group": "g"}`); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", status)
	}
	var keys []string
	for _, group := range []string{"g", "h", "g"} {
		key := s.begin(`{"group": "` + group + `"}`)
		s.must(key, chat, says(fmt.Sprintf("user:'%d'", len(keys))))
		s.must(key, "/reward", `{"value": 1}`)
		keys = append(keys, key)
	}
	s.begin(`{"group": "g"}`) // a client that did not get the key holds up nobody
	for i, key := range keys {
		if err := s.deliver(time.Now()); err != nil || len(s.trainer.got) != 0 {
			t.Errorf("%v; after %d commits the trainer got %v", err, i, s.trained())
		}
		s.must(key, "/commit", "{}")
	}
	if err := s.deliver(time.Now()); err != nil {
		t.Fatal(err)
	}
	s.wants("0=1", "2=1")
	if g := s.trainer.got[0].Groups[0]; g[0].ID.Task != "g" || g[1].ID.Run != 1 {
		t.Errorf("%+v", g[1].ID)
	}
	if err := s.deliver(time.Now().Add(time.Hour)); err != nil || len(s.said) != 1 || !strings.Contains(s.said[0], "expired_count:2") {
		t.Errorf("%v %q: the rollout of h has nobody to be compared with", err, s.said)
	}
}

// Each API is recorded. A reply that was asked for with the server's own key is not.
func TestTrafficSpeaksEachAPI(t *testing.T) {
	s := newSite(t, TrafficOptions{})
	key := s.begin("{}")
	s.must(key, "/responses", `{"model": "m", "input": "say 'a'"}`)
	s.must(key, "/messages", `{"model": "m", "max_tokens": 20, "messages": [{"role": "user", "content": "say 'b'"}]}`)
	s.must(key, "/completions", `{"prompt": "say 'c'"}`)
	if text := s.must(key, chat, strings.Replace(says("user:say 'd'"), "{", `{"stream": true, `, 1)); !strings.Contains(text, "[DONE]") {
		t.Error(text)
	}
	if status, _ := s.ask(s.Token, chat, says("user:say 'e'")); status != http.StatusNotFound {
		t.Errorf("the server's own API: %d, want that of the handler behind", status)
	}
	s.must(key, "/reward", `{"value": 1}`)
	s.must(key, "/commit", "{}")
	if err := s.deliver(time.Now()); err != nil {
		t.Fatal(err)
	}
	s.wants("a=1", "b=1", "c=1", "d=1")
}

// A request that a client repeats after a restart replaces the reply that the client did not get.
func TestTrafficRepeats(t *testing.T) {
	s := newSite(t, TrafficOptions{})
	key := s.begin("{}")
	s.must(key, chat, says("user:'a'"), "x-stainless-retry-count", "0")
	s.restart()
	s.must(key, chat, says("user:'a'"), "x-stainless-retry-count", "1")
	s.must(key, chat, says("user:'a'"), "x-stainless-retry-count", "1")
	s.must(key, "/reward", `{"value": 1}`)
	s.must(key, "/commit", "{}")
	if err := s.deliver(time.Now()); err != nil {
		t.Fatal(err)
	}
	s.wants("a=1")
}

// A session without calls leaves the memory, and its key stays valid.
func TestTrafficDropsIdleSessions(t *testing.T) {
	s := newSite(t, TrafficOptions{})
	key := s.begin("{}")
	s.must(key, chat, says("user:'a'"))
	dropped := s.traffic.gateway.open[digestOf(key)]
	s.traffic.dropIdle(time.Now().Add(idle / 2))
	if n := len(s.traffic.gateway.open); n != 1 {
		t.Errorf("%d sessions are open after half of the time, want 1", n)
	}
	s.traffic.dropIdle(time.Now().Add(2 * idle))
	if n := len(s.traffic.gateway.open); n != 0 {
		t.Errorf("%d sessions are open, want 0", n)
	}
	s.must(key, chat, says("user:'b'"))
	dropped.forget() // may come late
	s.must(key, "/reward", `{"value": 1}`)
	s.must(key, "/commit", "{}")
	if err := s.deliver(time.Now()); err != nil {
		t.Fatal(err)
	}
	s.wants("a=1", "b=1")
}

// With steps each call is an experience, which may have a reward of its own.
func TestTrafficInSteps(t *testing.T) {
	s := newSite(t, TrafficOptions{})
	key := s.begin(`{"steps": true}`)
	s.must(key, chat, says("user:'a'"))
	s.must(key, chat, says("user:'a'", "assistant:a", "user:'b'"))
	if status, text := s.ask(key, "/experiences", `{"experiences":[{"turn":0}]}`); status != 400 || !strings.Contains(text, "real traffic") {
		t.Errorf("experiences of real traffic: %d %s", status, text)
	}
	s.restart()
	s.must(key, "/reward", `{"value": 3, "turn": 0}`)
	s.must(key, "/reward", `{"value": 1}`)
	s.must(key, "/commit", "{}")
	if err := s.deliver(time.Now()); err != nil {
		t.Fatal(err)
	}
	s.wants("a=3", "b=1")
}

// Without a trainer no rollout begins.
func TestTrafficEndsWithTheTrainer(t *testing.T) {
	s := newSite(t, TrafficOptions{})
	s.trainer.ended = true
	s.restart()
	if err := s.traffic.Deliver(t.Context()); err != nil {
		t.Error(err)
	}
	if status, text := s.ask(s.Token, "/rollouts", "{}"); status != http.StatusConflict || !strings.Contains(text, "training_ended") {
		t.Errorf("%d %s", status, text)
	}
}

// Whoever reads the journal learns no key.
func TestTrafficJournalHoldsNoKey(t *testing.T) {
	s := newSite(t, TrafficOptions{})
	key := s.begin("{}")
	s.must(key, chat, says("user:'a'"))
	for number := range s.traffic.journal.log.Next() {
		data, err := s.traffic.journal.index.Read(number)
		if err != nil || strings.Contains(string(data), key) {
			t.Errorf("%v %s", err, data)
		}
	}
}

// A journal that is gone, or was cut, while the trainer has its deliveries is said. What the trainer has
// does not come again.
func TestAJournalIsGoneOrCut(t *testing.T) {
	deliver := func(s *site) {
		key := s.begin("{}")
		s.must(key, chat, says("user:hi"))
		s.must(key, "/reward", `{"value": 1}`)
		s.must(key, "/commit", "{}")
		if err := s.deliver(time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	for want, harm := range map[string]func(file string, size int64) error{
		" is gone: the trainer has delivery 2, and the journal knows 0.": func(file string, _ int64) error {
			return os.RemoveAll(filepath.Dir(file))
		},
		" was cut: the trainer has delivery 2, and the journal knows 1.": os.Truncate,
	} {
		s := newSite(t, TrafficOptions{})
		deliver(s)
		files, err := filepath.Glob(filepath.Join(s.Dir, "*.log"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		info, err := os.Stat(files[0])
		if err != nil {
			t.Fatal(err)
		}
		s.restart()
		if len(s.said) > 0 {
			t.Errorf("a whole journal: %q", s.said)
		}
		deliver(s)
		s.stop()
		if err := harm(files[0], info.Size()); err != nil {
			t.Fatal(err)
		}
		s.start()
		if len(s.said) != 1 || !strings.Contains(s.said[0], want) {
			t.Errorf("the server says %q, want %q", s.said, want)
		}
		deliver(s)
		var at cursor
		if err := json.Unmarshal(s.trainer.got[2].Cursor, &at); err != nil || at.Step != 3 {
			t.Errorf("the next delivery is %+v, %v", at, err)
		}
	}
}
