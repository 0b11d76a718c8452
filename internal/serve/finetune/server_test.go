package finetune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/registry"
	_ "github.com/trinity-go/trinity/standard"
)

// TestMain lets the test binary stand for trinity, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && (os.Args[1] == "check" || os.Args[1] == "run") {
		os.Exit(pretend(os.Args[1]))
	}
	os.Exit(m.Run())
}

// pretend does what trinity does in the directory of a job. Files beside the jobs say what goes wrong.
func pretend(command string) int {
	says := func(name string) string { text, _ := os.ReadFile(filepath.Join("..", "..", name)); return string(text) }
	switch text := says(command + ".fails"); {
	case text != "":
		dir, _ := os.Getwd()
		fmt.Fprintf(os.Stderr, "noise\ntrinity: %s/%s\n", dir, text)
		return 1
	case command == "check":
		return 0
	}
	for says("run.hangs") != "" {
		time.Sleep(time.Millisecond)
	}
	id, _ := filepath.Abs(".")
	write := func(name, text string) {
		if os.MkdirAll(filepath.Dir(name), 0o755) != nil || os.WriteFile(name, []byte(text), 0o644) != nil {
			os.Exit(2)
		}
	}
	order, _ := os.OpenFile(filepath.Join("..", "..", "order"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	fmt.Fprintln(order, filepath.Base(id))
	const line = `{"step":%d,"role":"trainer","time":"2026-01-02T15:04:05Z","metrics":{%s}}` + "\n"
	write("run/monitor/metrics.jsonl", fmt.Sprintf(line, 1, `"actor/sft_loss":2,"perf/total_num_tokens":7`)+
		fmt.Sprintf(line, 2, `"actor/sft_loss":1.5,"eval/valid/sft_loss":3,"perf/total_num_tokens":8`))
	write("run/global_step_2/actor/lora_adapter/adapter_model.safetensors", "weights")
	return 0
}

// tester is a client of a server.
type tester struct {
	t     *testing.T
	s     *Server
	url   string
	dir   string
	turns *turns
}

// turns gives turns in the order in which owners ask.
type turns struct {
	one chan struct{}

	mu      sync.Mutex
	charged map[string][2]int
	over    string // why turns are over
}

func (q *turns) enter(ctx context.Context, owner string) (Turn, error) {
	select {
	case q.one <- struct{}{}:
		return &turn{q, owner}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type turn struct {
	*turns
	owner string
}

func (t *turn) Compute(trained, sampled int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.charged[t.owner]
	t.charged[t.owner] = [2]int{was[0] + trained, was[1] + sampled}
}

func (t *turn) Over(bool) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

func (t *turn) Leave() { <-t.one }

// set says why turns are over from now on.
func (q *turns) set(over string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = over
}

// judge is a model that answers with its instructions, or fails.
type judge struct{ used func(int) }

func (j *judge) Ask(ctx context.Context, messages []trinity.Message, o trinity.AskOptions) (trinity.Answer, error) {
	j.used(7)
	text := messages[0].Content
	if strings.HasPrefix(text, "wait") {
		<-ctx.Done()
		return trinity.Answer{}, ctx.Err()
	}
	if strings.HasPrefix(text, "fail") || o.Seed == nil || *o.Seed != 5 || *o.TopP != 0.5 || o.MaxTokens != 9 {
		return trinity.Answer{}, fmt.Errorf("it failed with %+v", o)
	}
	return trinity.Answer{Message: trinity.Message{Content: text}}, nil
}

// serve starts a server in a directory; "" is a new one. The header Owner says who a client is.
func serve(t *testing.T, dir string, change func(*Options)) *tester {
	t.Helper()
	self, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	if dir == "" {
		dir = t.TempDir()
	}
	type owner struct{}
	given := &turns{one: make(chan struct{}, 1), charged: map[string][2]int{}}
	o := Options{
		Enter: given.enter,
		Asker: func(_, name string, used func(int)) (trinity.Asker, error) {
			if name != "org/tiny" {
				return nil, errors.New("no such model")
			}
			return &judge{used: used}, nil
		},
		Dir: dir, Bases: []Base{{"org/tiny", "/models/tiny", 64}}, Alpha: 32, Trainer: "cpu", Sampler: "cpu", Program: self,
		Owner: func(ctx context.Context) string { return ctx.Value(owner{}).(string) }, Disk: func(string) int64 { return 0 },
		Grader: func(object map[string]any) (trinity.RewardFunc, error) {
			return registry.Rewards.Build("grader_reward", map[string]any{"grader": object, "isolation": "none"})
		},
		Say: func(line string) { t.Log(line) },
	}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := s.Handler()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), owner{}, r.Header.Get("Owner"))))
	}))
	t.Cleanup(web.Close)
	return &tester{t, s, web.URL, dir, given}
}

// run runs the server's jobs until the test or stop ends.
func (c *tester) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.s.Run(ctx); err != nil {
			c.t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	c.t.Cleanup(stop)
	return stop
}

// ask sends a request, and returns the status and the reply.
func (c *tester) ask(owner, method, path string, body any) (status int, reply map[string]any) {
	c.t.Helper()
	var in io.Reader = http.NoBody
	kind := "application/json"
	switch b := body.(type) {
	case nil:
	case *form:
		in, kind = &b.text, b.kind
	case string:
		in = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			c.t.Fatal(err)
		}
		in = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+"/v1/"+path, in)
	if err != nil {
		c.t.Fatal(err)
	}
	if name, key, ok := strings.Cut(owner, "/"); ok {
		owner = name
		r.Header.Set("Idempotency-Key", key)
	}
	r.Header.Set("Owner", owner)
	r.Header.Set("Content-Type", kind)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		reply = map[string]any{"text": string(text)}
	}
	return resp.StatusCode, reply
}

// good is ask for a request that must succeed.
func (c *tester) good(owner, method, path string, body any) map[string]any {
	c.t.Helper()
	status, reply := c.ask(owner, method, path, body)
	if status != http.StatusOK {
		c.t.Fatalf("%s %s: %d %v", method, path, status, reply)
	}
	return reply
}

// refused is ask for a request that must fail with a status and words.
func (c *tester) refused(owner, method, path string, body any, status int, words string) {
	c.t.Helper()
	got, reply := c.ask(owner, method, path, body)
	wrong, _ := reply["error"].(map[string]any)
	if text, _ := wrong["message"].(string); got != status || !strings.Contains(text, words) || strings.Contains(text, "\n") {
		c.t.Errorf("%s %s: %d %v, want %d %q", method, path, got, reply, status, words)
	}
}

// form is a multipart form.
type form struct {
	text bytes.Buffer
	kind string
}

func formOf(pairs ...string) *form {
	f := &form{}
	w := multipart.NewWriter(&f.text)
	for i := 0; i < len(pairs); i += 2 {
		create := w.CreateFormField
		if pairs[i] == "file" || pairs[i] == "data" {
			create = func(name string) (io.Writer, error) { return w.CreateFormFile(name, "../a/data.jsonl") }
		}
		part, err := create(pairs[i])
		if err == nil {
			_, err = io.WriteString(part, pairs[i+1])
		}
		if err != nil {
			panic(err) // of a buffer
		}
	}
	_ = w.Close()
	f.kind = w.FormDataContentType()
	return f
}

// file uploads a file of rows, and returns its ID.
func (c *tester) file(owner, text string) string {
	c.t.Helper()
	return c.good(owner, "POST", "files", formOf("purpose", "fine-tune", "file", text))["id"].(string)
}

const chat = `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}` + "\n"

// order makes a supervised job, and returns its ID.
func (c *tester) order(owner string, more map[string]any) string {
	c.t.Helper()
	order := map[string]any{"model": "org/tiny", "training_file": c.file(owner, chat+chat), "seed": 1}
	for key, value := range more {
		order[key] = value
	}
	return c.good(owner, "POST", "fine_tuning/jobs", order)["id"].(string)
}

// until waits until a job has a status.
func (c *tester) until(owner, id, status string) map[string]any {
	c.t.Helper()
	for {
		j := c.good(owner, "GET", "fine_tuning/jobs/"+id, nil)
		if j["status"] == status {
			return j
		}
		if s := j["status"].(string); s == "failed" || s == "succeeded" || s == "cancelled" || c.t.Context().Err() != nil {
			c.t.Fatalf("the job is %v, want %s", j, status)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (c *tester) write(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

func TestFiles(t *testing.T) {
	c := serve(t, "", func(o *Options) { o.Disk = func(string) int64 { return 40 } })
	first := c.good("ann", "POST", "files", formOf("file", "{}\n", "purpose", "fine-tune"))
	if first["filename"] != "data.jsonl" || first["bytes"] != 3.0 || first["status"] != "processed" || first["object"] != "file" {
		t.Errorf("%v", first)
	}
	short := formOf("purpose", "batch", "expires_after[anchor]", "created_at", "expires_after[seconds]", "3600", "file", "x")
	second := c.good("ann", "POST", "files", short)
	if second["expires_at"].(float64)-second["created_at"].(float64) != 3600 {
		t.Errorf("%v", second)
	}
	ids := func(owner, query string) (all []string) {
		for _, f := range c.good(owner, "GET", "files?"+query, nil)["data"].([]any) {
			all = append(all, f.(map[string]any)["id"].(string))
		}
		return all
	}
	a, b := first["id"].(string), second["id"].(string)
	if got := ids("ann", "purpose=batch"); !slices.Equal(got, []string{b}) {
		t.Errorf("%v", got)
	}
	page := c.good("ann", "GET", "files?limit=1&order=asc", nil)
	if got := ids("ann", "order=asc&after="+page["last_id"].(string)); page["has_more"] != true || len(got) != 1 || got[0] == page["last_id"] {
		t.Errorf("%v, then %v", page, got)
	}
	if text := c.good("ann", "GET", "files/"+a+"/content", nil); len(text) != 0 {
		t.Errorf("%v", text)
	}
	for path, method := range map[string]string{a: "GET", a + "/content": "GET", b: "DELETE"} {
		c.refused("bob", method, "files/"+path, nil, 404, "there is no file")
	}
	if len(ids("bob", "")) != 0 {
		t.Error("bob sees files of ann")
	}
	c.refused("ann", "POST", "files", formOf("purpose", "fine-tune", "file", strings.Repeat("x", 40)), 403, "files and jobs of the key ann")
	again := serve(t, c.dir, nil)
	if got := again.good("ann", "DELETE", "files/"+a, nil); got["deleted"] != true {
		t.Errorf("%v", got)
	}
	again.refused("ann", "GET", "files/"+a, nil, 404, "there is no file")
	again.s.files.all[b].ExpiresAt = new(int64)
	again.refused("ann", "GET", "files/"+b+"/content", nil, 404, "there is no file")
	if left, err := os.ReadDir(filepath.Join(c.dir, filesDir)); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestBadForms(t *testing.T) {
	c := serve(t, "", nil)
	for words, f := range map[string]*form{
		"the form has no file":             formOf("purpose", "fine-tune"),
		"want one of fine-tune, assistant": formOf("file", "x", "purpose", "fine-tune-results"),
		`the form has "purpose" twice`:     formOf("purpose", "batch", "purpose", "batch", "file", "x"),
		"more than 1024 bytes":             formOf("purpose", strings.Repeat("x", 2000)),
		"want the anchor created_at":       formOf("file", "x", "purpose", "batch", "expires_after[seconds]", "5"),
	} {
		c.refused("", "POST", "files", f, 400, words)
	}
	cut := formOf("purpose", "batch", "file", "x")
	cut.text.Truncate(cut.text.Len() - 10)
	c.refused("", "POST", "files", cut, 400, "the form ends early")
	c.refused("", "POST", "files", "{}", 400, "want a form")
	c.refused("", "GET", "fine_tuning/checkpoints/x/permissions", nil, 404, "permissions of checkpoints")
	c.refused("", "GET", "batches", nil, 404, "docs/guide/finetuning.md says what is")
	if left, err := os.ReadDir(filepath.Join(c.dir, filesDir)); err != nil || len(left) != 0 {
		t.Errorf("refused files stay: %v, %v", left, err)
	}
}

func TestAJobSucceeds(t *testing.T) {
	c := serve(t, "", nil)
	c.run()
	validation := c.file("ann", chat)
	id := c.order("ann", map[string]any{"suffix": "mine", "metadata": map[string]string{"a": "b"}, "validation_file": validation})
	j := c.until("ann", id, "succeeded")
	name := "ft:org/tiny:mine:" + strings.TrimPrefix(id, "ftjob-")
	if j["fine_tuned_model"] != name || j["trained_tokens"] != 15.0 || j["error"] != nil ||
		fmt.Sprint(j["hyperparameters"]) != "map[batch_size:1 learning_rate_multiplier:1 n_epochs:3]" {
		t.Errorf("%v", j)
	}
	var events []string
	for _, e := range c.good("ann", "GET", "fine_tuning/jobs/"+id+"/events", nil)["data"].([]any) {
		e := e.(map[string]any)
		events = append(events, fmt.Sprint(e["type"], " ", e["message"], " ", e["data"]))
	}
	for i, want := range []string{"message The job has successfully completed", "message New fine-tuned model created: " + name} {
		if !strings.HasPrefix(events[i], want) {
			t.Errorf("event %d is %s, want %s", i, events[i], want)
		}
	}
	want := "metrics Step 2/6: training loss=1.5, validation loss=3 map[full_valid_loss:3 step:2 train_loss:1.5 valid_loss:3]"
	if !slices.Contains(events, want) {
		t.Errorf("%q has no %q", events, want)
	}
	page := c.good("ann", "GET", "fine_tuning/jobs/"+id+"/events?limit=2", nil)
	next := c.good("ann", "GET", "fine_tuning/jobs/"+id+"/events?limit=100&after="+page["last_id"].(string), nil)
	if n := len(next["data"].([]any)); n != len(events)-2 || next["has_more"] != false || page["has_more"] != true {
		t.Errorf("%d events behind two of %d", n, len(events))
	}
	saved := c.good("ann", "GET", "fine_tuning/jobs/"+id+"/checkpoints", nil)["data"].([]any)[0].(map[string]any)
	if saved["fine_tuned_model_checkpoint"] != name+":ckpt-step-2" || saved["metrics"].(map[string]any)["train_loss"] != 1.5 {
		t.Errorf("%v", saved)
	}
	results := c.good("ann", "GET", "files/"+j["result_files"].([]any)[0].(string)+"/content", nil)["text"]
	if results != "step,full_valid_loss,train_loss,valid_loss\n1,,2,\n2,3,1.5,3\n" {
		t.Errorf("%q", results)
	}
	models := c.s.Models("ann")
	if len(models) != 2 || models[0].Name != name || models[0].Base != "org/tiny" || models[1].Dir != models[0].Dir {
		t.Errorf("%+v", models)
	}
	for path, method := range map[string]string{"": "GET", "/events": "GET", "/checkpoints": "GET", "/cancel": "POST"} {
		c.refused("bob", method, "fine_tuning/jobs/"+id+path, nil, 404, "there is no fine-tuning job")
	}
	for query, n := range map[string]int{"": 1, "metadata[a]=b": 1, "metadata[a]=c": 0, "metadata=null": 0} {
		if got := c.good("ann", "GET", "fine_tuning/jobs?"+query, nil)["data"].([]any); len(got) != n {
			t.Errorf("%s: %d jobs, want %d", query, len(got), n)
		}
	}
	on := c.order("ann", map[string]any{"model": name})
	c.until("ann", on, "succeeded")
	config, err := os.ReadFile(filepath.Join(c.dir, "jobs", on, "config.yaml"))
	left, wrong := os.ReadDir(filepath.Join(c.dir, "jobs", on))
	if err != nil || wrong != nil || !strings.Contains(string(config), `path: "adapter"`) || len(left) != 4 {
		t.Errorf("%s, %v, %v, %v", config, err, left, wrong)
	}
	c.refused("bob", "POST", "fine_tuning/jobs", map[string]any{"model": name, "training_file": "x"}, 400, "there is no model")
}

// An order that comes again makes no other job.
func TestOrdersComeAgain(t *testing.T) {
	c := serve(t, "", nil)
	order := map[string]any{"model": "org/tiny", "training_file": c.file("ann", chat), "seed": 1}
	first := c.good("ann/k", "POST", "fine_tuning/jobs", order)
	c.good("ann", "DELETE", "files/"+order["training_file"].(string), nil)
	again := serve(t, c.dir, nil)
	if second := again.good("ann/k", "POST", "fine_tuning/jobs", order); second["id"] != first["id"] {
		t.Errorf("%v, then %v", first, second)
	}
	order["seed"] = 2
	again.refused("ann/k", "POST", "fine_tuning/jobs", order, 422, "another order has made the job "+first["id"].(string))
	again.refused("bob/k", "POST", "fine_tuning/jobs", order, 400, "there is no file")
	again.refused("ann/"+strings.Repeat("k", 300), "POST", "fine_tuning/jobs", order, 400, "more than 256 bytes")
}

func TestModelsAreDeleted(t *testing.T) {
	c := serve(t, "", nil)
	waits := c.order("ann", nil)
	c.run()
	id := c.order("ann", nil)
	c.until("ann", waits, "succeeded")
	c.until("ann", id, "succeeded")
	name := "ft:org/tiny::" + strings.TrimPrefix(id, "ftjob-")
	c.refused("bob", "DELETE", "models/"+name, nil, 404, "there is no model")
	c.refused("ann", "DELETE", "models/"+name+":ckpt-step-1", nil, 404, "there is no model")
	c.refused("ann", "DELETE", "models/org/tiny", nil, 403, "is a model of the service")
	c.write("run.hangs", "yes")
	on := c.order("ann", map[string]any{"model": name})
	c.until("ann", on, "running")
	c.refused("ann", "DELETE", "models/ft:org/tiny::"+strings.TrimPrefix(on, "ftjob-"), nil, 400, "has not ended")
	copied, err := os.ReadFile(filepath.Join(c.dir, "jobs", on, "adapter", "adapter_model.safetensors"))
	if err != nil || string(copied) != "weights" {
		t.Errorf("%q, %v", copied, err)
	}
	if r := c.good("ann", "DELETE", "models/"+name, nil); r["deleted"] != true || r["id"] != name {
		t.Errorf("%v", r)
	}
	c.refused("ann", "DELETE", "models/"+name+":ckpt-step-2", nil, 404, "there is no model")
	c.write("run.hangs", "")
	c.until("ann", on, "succeeded") // it has a copy
	if left := c.s.Models("ann"); len(left) != 4 {
		t.Errorf("%v", left)
	}
}

func TestJobsFail(t *testing.T) {
	c := serve(t, "", nil)
	c.run()
	failed := func(id, code, words string) {
		t.Helper()
		j := c.until("", id, "failed")
		wrong, _ := j["error"].(map[string]any)
		if text, _ := wrong["message"].(string); wrong["code"] != code || !strings.HasPrefix(text, words) || j["finished_at"] == nil {
			t.Errorf("%v, want %s %q", j["error"], code, words)
		}
	}
	bad := c.file("", chat+`{"messages":[]}`+"\n")
	failed(c.order("", map[string]any{"training_file": bad}), "invalid_training_file", "training_file: line 2: messages: want a list")
	failed(c.order("", map[string]any{"validation_file": bad}), "invalid_validation_file", "validation_file: line 2")
	c.write("run.fails", "training.jsonl:1: too long")
	failed(c.order("", nil), "invalid_training_file", "training_file: line 1: too long")
	c.write("run.fails", "no memory")
	failed(c.order("", nil), "run_failed", "no memory")
	c.write("run.fails", "step 20: write x: "+syscall.ENOSPC.Error()+"; make room")
	full := c.order("", nil)
	c.until("", full, "paused")
	c.write("run.fails", "")
	c.good("", "POST", "fine_tuning/jobs/"+full+"/resume", nil)
	c.until("", full, "succeeded")
	c.write("check.fails", "config.yaml:3: no")
	failed(c.order("", nil), "invalid_job", "config.yaml:3: no")
	c.write("check.fails", "config.yaml:21:7: buffer.trainer_input.path: validation.jsonl:7: messages[0] is no message")
	failed(c.order("", nil), "invalid_validation_file", "validation_file: line 7: messages[0] is no message")
}

func TestJobsAreCancelledPausedAndResumed(t *testing.T) {
	c := serve(t, "", nil)
	waits := c.order("", nil)
	if j := c.good("", "POST", "fine_tuning/jobs/"+waits+"/cancel", nil); j["status"] != "cancelled" {
		t.Errorf("%v", j)
	}
	c.refused("", "POST", "fine_tuning/jobs/"+waits+"/cancel", nil, 400, "it cannot be cancelled")
	c.refused("", "POST", "fine_tuning/jobs/"+waits+"/pause", nil, 400, "only one that is queued or running can be paused")
	c.refused("", "POST", "fine_tuning/jobs/"+waits+"/resume", nil, 400, "only one that is paused can resume")
	c.write("run.hangs", "yes")
	stop := c.run()
	runs := c.order("", nil)
	c.until("", runs, "running")
	queued := c.order("", nil)
	c.until("", queued, "queued")
	if j := c.good("", "POST", "fine_tuning/jobs/"+queued+"/pause", nil); j["status"] != "paused" {
		t.Errorf("%v", j)
	}
	if j := c.good("", "POST", "fine_tuning/jobs/"+runs+"/cancel", nil); j["status"] != "cancelled" {
		t.Errorf("%v", j)
	}
	if j := c.good("", "POST", "fine_tuning/jobs/"+queued+"/resume", nil); j["status"] != "queued" && j["status"] != "running" {
		t.Errorf("%v", j)
	}
	c.until("", queued, "running")
	stop()
	c.write("run.hangs", "")
	again := serve(t, c.dir, nil) // it goes on with what ran
	if j := again.good("", "GET", "fine_tuning/jobs/"+queued, nil); j["status"] != "queued" {
		t.Errorf("%v", j["status"])
	}
	again.run()
	again.until("", queued, "succeeded")
	again.write("run.hangs", "yes")
	paused := again.order("", nil)
	again.until("", paused, "running")
	again.good("", "POST", "fine_tuning/jobs/"+paused+"/pause", nil) // it has no checkpoint yet
	again.until("", paused, "paused")
	again.write("run.hangs", "")
	again.good("", "POST", "fine_tuning/jobs/"+paused+"/resume", nil)
	again.until("", paused, "succeeded")
}

func TestOrdersAreChecked(t *testing.T) {
	c := serve(t, "", nil)
	id := c.file("", chat)
	foreign := c.file("bob", chat)
	other := c.good("", "POST", "files", formOf("purpose", "batch", "file", chat))["id"]
	supervised := func(h map[string]any) map[string]any {
		return map[string]any{"method": map[string]any{"type": "supervised", "supervised": map[string]any{"hyperparameters": h}}}
	}
	reinforcement := func(terms map[string]any) map[string]any {
		return map[string]any{"method": map[string]any{"type": "reinforcement", "reinforcement": terms}}
	}
	check := map[string]any{"type": "string_check", "name": "c", "operation": "eq", "input": "{{ sample.output_text }}", "reference": "b"}
	graded := func(key string, value any) map[string]any {
		return reinforcement(map[string]any{"grader": check, "hyperparameters": map[string]any{key: value}})
	}
	twice := map[string]any{"method": map[string]any{"type": "supervised"}, "hyperparameters": map[string]any{}}
	form := map[string]any{"grader": check, "response_format": map[string]any{"type": "json_object"}}
	asks := map[string]any{"type": "score_model", "name": "m", "model": "gpt", "input": []any{map[string]any{"role": "user", "content": "?"}}}
	label := map[string]any{"type": "label_model", "name": "l"}
	for words, more := range map[string]map[string]any{
		`unknown field "colour"`:                             {"colour": 1},
		"cannot unmarshal number":                            {"model": 1},
		`model "x": want one of org/tiny, or what a job has`: {"model": "x"},
		`there is no file "file-x"`:                          {"training_file": "file-x"},
		`there is no file "` + foreign:                       {"validation_file": foreign},
		"has the purpose batch":                              {"training_file": other},
		"want letters, digits":                               {"suffix": "../x"},
		"want a number from 0 to 2147483647":                 {"seed": -1},
		"a job has none":                                     {"integrations": []any{map[string]any{"type": "wandb"}}},
		"want keys of 64":                                    {"metadata": map[string]any{strings.Repeat("x", 65): ""}},
		"want the type supervised, dpo or reinforcement":     {"method": map[string]any{"type": "ppo"}},
		"the terms of that type alone":                       {"method": map[string]any{"type": "dpo", "supervised": map[string]any{}}},
		`want "auto", or a whole number from 1 to 1000`:      supervised(map[string]any{"n_epochs": 1.5}),
		`want "auto", or a whole number from 1 to 4096`:      supervised(map[string]any{"batch_size": 0}),
		`want "auto", or a number above 0, at most 1000`:     supervised(map[string]any{"learning_rate_multiplier": -1}),
		`want a number or "auto", got "all"`:                 supervised(map[string]any{"n_epochs": "all"}),
		"belongs to method.dpo":                              supervised(map[string]any{"beta": 1}),
		"belongs to method.reinforcement":                    supervised(map[string]any{"eval_interval": 1}),
		"a grader is missing":                                reinforcement(map[string]any{}),
		"label_model stands inside a multi":                  reinforcement(map[string]any{"grader": label}),
		"asks the model \"gpt\", which this service does":    reinforcement(map[string]any{"grader": asks}),
		"each task has 8 replies":                            graded("compute_multiplier", 2),
		"have no levels of effort":                           graded("reasoning_effort", "low"),
		"nothing trains on constrained":                      reinforcement(form),
		"write them at method.supervised.hyperparameters":    twice,
		`want "auto", or a whole number from 1 to 63, got 6`: graded("max_completion_tokens", 64),
	} {
		order := map[string]any{"model": "org/tiny", "training_file": id}
		for key, value := range more {
			order[key] = value
		}
		c.refused("", "POST", "fine_tuning/jobs", order, 400, words)
	}
	several := supervised(map[string]any{"compute_multiplier": 1, "eval_samples": 1, "eval_interval": 1, "max_completion_tokens": 1})
	several["model"], several["training_file"] = "org/tiny", id
	for range 16 { // the same one of several faults each time
		c.refused("", "POST", "fine_tuning/jobs", several, 400, "belongs to method.reinforcement")
		if _, reply := c.ask("", "POST", "fine_tuning/jobs", several); !strings.HasSuffix(fmt.Sprint(reply["error"].(map[string]any)["param"]),
			".eval_interval") {
			t.Error(reply)
		}
	}
	c.refused("", "POST", "fine_tuning/jobs", `{"model": "org/tiny"} {}`, 400, "there is more behind")
	c.refused("", "POST", "fine_tuning/jobs", `{"model": "org/tiny"}}`, 400, "there is more behind")
	c.refused("", "POST", "fine_tuning/jobs", `[`, 400, "unexpected EOF")
	c.refused("", "GET", "fine_tuning/jobs?limit=0", nil, 400, "want a number from 1 to 100")
	c.refused("", "GET", "fine_tuning/jobs?after=x", nil, 400, `there is no "x" in the list`)
	if jobs := c.good("", "GET", "fine_tuning/jobs", nil)["data"].([]any); len(jobs) != 0 {
		t.Errorf("refused orders are jobs: %v", jobs)
	}
}
