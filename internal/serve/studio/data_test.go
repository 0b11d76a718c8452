package studio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/model/renderer"
)

// dataSite serves a run with sources, whose model has the tokenizer of the quickstart if text says so.
func dataSite(t *testing.T, text bool, sources ...dataset.Entry) *httptest.Server {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, "r/monitor/config.yaml", "name: r\nmode: train\nmodel: {model_path: m, max_model_len: 64}\nalgorithm: {algorithm_type: sft}\n"+
		"buffer: {train_batch_size: 4, total_steps: 2, trainer_input: {experience_buffer: {storage_type: file, path: d.jsonl}}}\n")
	server := &Server{Dir: dir, Data: Data{
		Sources: func(cfg *config.Settled, at string) []dataset.Entry {
			if cfg.Name != "r" || filepath.Base(at) != "r" {
				t.Errorf("asked for the data of %s in %s", cfg.Name, at)
			}
			return sources
		},
		Text: func(*config.Settled) (*renderer.Renderer, error) {
			if !text {
				return nil, errors.New("the model is elsewhere")
			}
			return renderer.Open("../../../examples/quickstart/model", renderer.Options{})
		},
	}}
	s := httptest.NewServer(server.Handler())
	t.Cleanup(s.Close)
	return s
}

// rowsOf asks for data and decodes the reply.
func rowsOf(t *testing.T, s *httptest.Server, what string, query ...string) (reply struct {
	rowsFound
	Prompt, Response []int
	Damaged          int
	Examples         []wholeExample
	Text             string
	Error            string
}) {
	t.Helper()
	q := url.Values{"run": {"r"}, "source": {"k"}}
	for i := 0; i < len(query); i += 2 {
		q.Set(query[i], query[i+1])
	}
	status, text := get(t, s, "/api/v1/data/"+what+"?"+q.Encode())
	if status != http.StatusOK {
		t.Fatalf("%s: %d: %s", q.Encode(), status, text)
	}
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		t.Fatalf("%v: %.300s", err, text)
	}
	return reply
}

var chatFormat = dataset.Format{
	TaskFormat: trinity.TaskFormat{PromptKey: "q", ResponseKey: "a", ChosenKey: "good", RejectedKey: "bad"}, PromptType: "plaintext",
}

const hostileRow = "<script>window.pwned = 1</script>\x1b[2J\u202e"

// Rows come page by page, with a damaged one where it is. Searches and lengths choose among them.
func TestDataRows(t *testing.T) {
	hostile, err := json.Marshal(map[string]string{"q": hostileRow, "a": "two lines\n"})
	if err != nil {
		t.Fatal(err)
	}
	path := put(t, t.TempDir(), "d.jsonl", `{"q":"one","a":"1"}`+"\nno row\n"+`{"q":"twenty-two","a":"22"}`+"\n"+string(hostile)+"\n")
	s := dataSite(t, false, dataset.Entry{Key: "k", Name: "n", Kind: "sft", Path: path, Format: chatFormat})
	status, text := get(t, s, "/api/v1/data?run=r")
	if status != http.StatusOK || !strings.Contains(text, `"key":"k"`) || !strings.Contains(text, path) {
		t.Errorf("the sources: %d %s", status, text)
	}
	first := rowsOf(t, s, "rows", "n", "2")
	if len(first.Rows) != 2 || first.End || first.Unit != "characters" || first.Why != "the model is elsewhere" {
		t.Fatalf("the first rows: %+v", first)
	}
	if e := first.Rows[0].Examples[0]; e.Prompt != "[user]\none\n[assistant]\n" || e.Response != "1\n" || e.Learned != 2 {
		t.Errorf("the first row: %+v", e)
	}
	if r := first.Rows[1]; !strings.HasSuffix(r.Where, "d.jsonl:2") || !strings.Contains(r.Error, "not JSON") {
		t.Errorf("the damaged row: %+v", r)
	}
	rest := rowsOf(t, s, "rows", "at", first.Next)
	if len(rest.Rows) != 2 || !rest.End || !strings.Contains(rest.Rows[1].Examples[0].Prompt, hostileRow) {
		t.Errorf("the rest: %+v", rest)
	}
	if found := rowsOf(t, s, "rows", "q", "TWENTY"); len(found.Rows) != 1 || found.Seen != 4 {
		t.Errorf("a search finds %+v", found)
	}
	lengths := rowsOf(t, s, "lengths")
	if fmt.Sprint(lengths.Prompt, lengths.Response[:2], lengths.Damaged) != "[23 30 58] [2 3] 1" {
		t.Errorf("lengths %v %v %d", lengths.Prompt, lengths.Response, lengths.Damaged)
	}
	found := rowsOf(t, s, "rows", "prompt", "24,30", "response", "3,3")
	if len(found.Rows) != 1 || *found.Rows[0].Examples[0].ResponseLength != 3 {
		t.Errorf("lengths choose %+v", found)
	}
	one := rowsOf(t, s, "row", "at", rest.Rows[1].At)
	if one.Text != string(hostile) || one.Examples[0].Tokens != nil {
		t.Errorf("the row: %+v", one)
	}
	if one = rowsOf(t, s, "row", "at", first.Rows[1].At); !strings.Contains(one.Error, "not JSON") {
		t.Errorf("the damaged row alone: %+v", one)
	}
}

// A row has the tokens of the run's model, and those that training learns.
func TestDataTokens(t *testing.T) {
	path := put(t, t.TempDir(), "d.jsonl", `{"q":"1+1=?","a":"2","good":"2","bad":"3"}`+"\n")
	for kind, want := range map[string][]string{
		"sft": {": 2<|im_end|>"}, "dpo": {"chosen: 2<|im_end|>", "rejected: 3<|im_end|>"}, "tasks": {": "},
	} {
		s := dataSite(t, true, dataset.Entry{Key: "k", Kind: kind, Path: path, Format: chatFormat})
		one := rowsOf(t, s, "row")
		if one.Unit != "tokens" || one.Why != "" {
			t.Errorf("%s: %+v", kind, one.scanned)
		}
		var got []string
		for _, e := range one.Examples {
			n := len(e.Tokens)
			if n == 0 || len(e.Mask) != n || len(e.Texts) != n || len(e.Roles) != n || !strings.Contains(strings.Join(e.Texts, ""), "1+1=?") {
				t.Errorf("%s: %+v", kind, e)
			}
			learned := ""
			for i, m := range e.Mask {
				if m {
					learned += e.Texts[i]
				}
			}
			got = append(got, e.Label+": "+learned)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s learns %q, want %q", kind, got, want)
		}
		if e := one.Examples[0]; kind == "tasks" && (e.Answer != "2" || e.ResponseLength != nil) {
			t.Errorf("the task is %+v", e.example)
		}
	}
}

// The log of a queue and the rows of a buffer in a database are experiences. Both are read while a run writes.
func TestDataOfBuffers(t *testing.T) {
	dir := t.TempDir()
	log, err := buffer.OpenLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	q := buffer.NewQueue(10, 1<<20, log)
	defer log.Close()
	e := &trinity.Experience{
		ID: trinity.ExperienceID{Step: 3, Task: "t"}, Tokens: []int32{5, 6, 1 << 30}, Mask: []bool{false, true, true}, PromptLen: 1,
		Prompt: "p", Response: hostileRow, Logprobs: []float32{0, -1, -2}, Reward: trinity.NewReward(map[string]float64{"a": .5}),
	}
	for range 2 {
		if err := q.Sink("explorer").Put(context.Background(), trinity.Delivery{Groups: []trinity.Group{{e}}, Cursor: []byte("1")}); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []bool{false, true} {
		s := dataSite(t, text, dataset.Entry{Key: "k", Kind: dataset.KindLog, Path: dir})
		got := rowsOf(t, s, "rows", "n", "1")
		if len(got.Rows) != 1 || got.Unit != "tokens" || got.Rows[0].Examples[0].Learned != 2 || float64(*got.Rows[0].Examples[0].Reward) != .5 {
			t.Errorf("the first: %+v", got)
		}
		if got = rowsOf(t, s, "rows", "at", got.Next); len(got.Rows) != 1 || !got.End || got.Rows[0].Where != "delivery 1, experience 1" {
			t.Errorf("the second: %+v", got)
		}
		if one := rowsOf(t, s, "row"); text != (len(one.Examples[0].Tokens) == 3 && len(one.Examples[0].Streams["logprobs"]) == 3) {
			t.Errorf("the row: %+v", one)
		} else if !text && one.Examples[0].Response != hostileRow {
			t.Errorf("the text is %q", one.Examples[0].Response)
		}
	}
}

// A list keeps of a long row what it shows, and no tokens.
func TestListsKeepShortTexts(t *testing.T) {
	long := strings.Repeat("x", mostInList+1)
	e := example{Prompt: long, exp: &trinity.Experience{Tokens: make([]int32, 9)}}
	e.shorten()
	if e.exp != nil || !e.Cut || e.Prompt != long[1:] {
		t.Errorf("it keeps the experience %v and %d characters", e.exp != nil, len(e.Prompt))
	}
}

// What cannot be read says so in one line. No request names a path.
func TestDataRefusals(t *testing.T) {
	dir := t.TempDir()
	path := put(t, dir, "d.jsonl", "{}\n")
	secret := put(t, dir, "secret.jsonl", "{\"geheim\":1}\n")
	s := dataSite(t, false, dataset.Entry{Key: "k", Kind: "sft", Path: path, Format: chatFormat},
		dataset.Entry{Key: "gone", Kind: "sft", Path: dir + "/none.jsonl"},
		dataset.Entry{Key: "problem", Path: "postgresql://u:geheim@h/db", Problem: "is lost"},
		dataset.Entry{Key: "dir", Kind: "sft", Path: dir + "/empty"})
	if err := os.Mkdir(dir+"/empty", 0o755); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]struct {
		status int
		line   string
	}{
		"run=r&source=" + url.QueryEscape(secret):        {404, "the run has no data"},
		"run=r&source=..%2Fsecret.jsonl":                 {404, "the run has no data"},
		"run=..&source=k":                                {404, "there is no run"},
		"run=none&source=k":                              {404, "there is no run"},
		"run=r&source=gone":                              {500, "no such file"},
		"run=r&source=problem":                           {500, "u:***@h/db: is lost"},
		"run=r&source=dir":                               {500, "empty"},
		"run=r&source=k&at=x":                            {400, "there is no place"},
		"run=r&source=k&at=0.-1":                         {400, "there is no place"},
		"run=r&source=k&at=1.2.3.4":                      {400, "there is no place"},
		"run=r&source=k&at=0.99999999":                   {500, "has become shorter"},
		"run=r&source=k&prompt=9":                        {400, "a range of lengths"},
		"run=r&source=k&response=9,1":                    {400, "a range of lengths"},
		"run=r&source=k&n=x":                             {400, "whole number"},
		"run=r&source=k&path=" + url.QueryEscape(secret): {200, `"rows"`},
	} {
		status, text := get(t, s, "/api/v1/data/rows?"+query)
		if status != want.status || !strings.Contains(text, want.line) || strings.Contains(text, "geheim") || strings.Count(text, "\n") > 1 {
			t.Errorf("%s: %d: %s", query, status, text)
		}
	}
	if status, text := get(t, serve(t, dir, ""), "/api/v1/data?run=r"); status != http.StatusNotFound {
		t.Errorf("a studio without data: %d %s", status, text)
	}
	if status, text := get(t, serve(t, dir, "0123456789abcdef"), "/api/v1/data?run=r"); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d %s", status, text)
	}
}

// A run keeps the values of variables. A configuration of another hand that names some learns none of the
// studio's.
func TestDataTellsNoVariables(t *testing.T) {
	t.Setenv("OF_THE_STUDIO", "geheim")
	dir := t.TempDir()
	put(t, dir, "r/monitor/config.yaml", "name: r\nmode: train\nmodel: {model_path: m, max_model_len: 64}\nalgorithm: {algorithm_type: sft}\n"+
		"buffer: {train_batch_size: 4, total_steps: 2, trainer_input: {experience_buffer: {storage_type: file,\n"+
		"  path: '/${oc.env:OF_THE_STUDIO}'}}}\n")
	server := &Server{Dir: dir, Data: Data{Sources: func(cfg *config.Settled, _ string) []dataset.Entry {
		return []dataset.Entry{{Key: "k", Path: cfg.Buffer.TrainerInput.ExperienceBuffer.Path, Problem: "is lost"}}
	}}}
	s := httptest.NewServer(server.Handler())
	t.Cleanup(s.Close)
	status, text := get(t, s, "/api/v1/data?run=r")
	if status == http.StatusOK || strings.Contains(text, "geheim") || !strings.Contains(text, "OF_THE_STUDIO") {
		t.Errorf("%d: %s", status, text)
	}
}

// A request waits a bounded time for those that read.
func TestDataWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newData(nil, Data{})
		for range dataReaders {
			if _, err := d.begin(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.begin(t.Context()); statusOf(err) != http.StatusServiceUnavailable {
			t.Error(err)
		}
	})
}
