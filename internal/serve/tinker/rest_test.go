package tinker

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// do makes a call with a method of its own, as a client of a key.
func (c *client) do(method, path string, in any, header ...string) (int, object) {
	c.t.Helper()
	body := []byte(nil)
	if in != nil {
		body, _ = json.Marshal(in)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+"/api/v1/"+path, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("X-API-Key", c.key)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	reply := object{}
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, reply
}

// got returns the answer to a call that succeeds.
func (c *client) got(method, path string, in any) object {
	c.t.Helper()
	status, reply := c.do(method, path, in)
	if status != http.StatusOK {
		c.t.Fatalf("%s %s: %d, %v", method, path, status, reply)
	}
	return reply
}

// save writes a checkpoint and returns its path.
func (c *client) save(id string, seq int, kind, name string, more object) string {
	c.t.Helper()
	in := object{"model_id": id, "seq_id": seq, "path": name, "type": kind}
	for k, v := range more {
		in[k] = v
	}
	return c.must(c.call(kind, in))["path"].(string)
}

func names(of object, list, field string) (all []string) {
	for _, x := range of[list].([]any) {
		all = append(all, fmt.Sprint(x.(map[string]any)[field]))
	}
	return all
}

// Lists are made of what stands with the checkpoints, so that a new server has them, too.
func TestListsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	c := serve(t, func(o *Options) { o.Dir = dir })
	c.session = c.call("create_session", object{
		"type": "create_session", "display_name": "Nightly sums", "user_metadata": object{"team": "a"}, "project_id": "p",
	})["session_id"].(string)
	id := c.model(0)
	first := c.save(id, 1, "save_weights", "one", object{"user_metadata": object{"step": "1"}, "ttl_seconds": 7200})
	c.save(id, 2, "save_weights_for_sampler", "two", nil)
	for _, server := range []*client{c, serve(t, func(o *Options) { o.Dir = dir })} {
		runs := server.got("GET", "training_runs?limit=5&access_scope=owned", nil)
		if got := names(runs, "training_runs", "training_run_id"); !slices.Equal(got, []string{id}) {
			t.Errorf("%v", runs)
		}
		run := server.got("GET", "training_runs/"+id, nil)
		if run["lora_rank"] != 2.0 || run["last_checkpoint"].(map[string]any)["tinker_path"] != first ||
			run["last_sampler_checkpoint"].(map[string]any)["checkpoint_id"] != "sampler_weights/two" {
			t.Errorf("%v", run)
		}
		all := server.got("GET", "checkpoints?limit=1&offset=1", nil)
		one := all["checkpoints"].([]any)[0].(map[string]any)
		if all["cursor"].(map[string]any)["total_count"] != 2.0 || one["tinker_path"] != first || one["expires_at"] == nil ||
			one["size_bytes"].(float64) < 1000 || one["user_metadata"].(map[string]any)["step"] != "1" || one["checkpoint_type"] != "training" {
			t.Errorf("%v", all)
		}
		if got := names(server.got("GET", "training_runs/"+id+"/checkpoints", nil), "checkpoints", "checkpoint_id"); !slices.Equal(
			got, []string{"sampler_weights/two", "weights/one"}) {
			t.Errorf("%v", got)
		}
		if got := server.got("GET", "sessions", nil)["sessions"].([]any); !slices.Equal(got, []any{c.session}) {
			t.Errorf("%v", got)
		}
		session := server.got("GET", "sessions/"+c.session, nil)
		if session["display_name"] != "Nightly sums" || session["training_run_ids"].([]any)[0] != id {
			t.Errorf("%v", session)
		}
		for want, search := range map[int][]object{
			1: {{}, {"display_name": "sums night"}, {"user_metadata": object{"team": "a"}}, {"project_ids": []string{"p"}},
				{"session_id": c.session}},
			0: {{"display_name": "x"}, {"user_metadata": object{"team": "b"}}, {"project_ids": []string{}}, {"session_id": "x"},
				{"cursor": object{"last_created_at": "2020-01-01T00:00:00Z", "last_session_id": "x"}}},
		} {
			for _, in := range search {
				if found := names(server.got("POST", "sessions/search", in), "sessions", "session_id"); len(found) != want {
					t.Errorf("%v finds %v, want %d", in, found, want)
				}
			}
		}
	}
	c.got("PUT", "sessions/"+c.session+"/project", object{"project_id": "q"})
	if runs := c.got("GET", "training_runs?project_id=q", nil); len(runs["training_runs"].([]any)) != 1 {
		t.Errorf("%v", runs)
	}
	if runs := c.got("GET", "training_runs?project_id=p", nil); len(runs["training_runs"].([]any)) != 0 {
		t.Errorf("%v", runs)
	}
}

// A checkpoint is deleted by its kind and name, and one whose time has passed by the server.
func TestCheckpointsEnd(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	one := c.save(id, 1, "save_weights_for_sampler", "one", object{"ttl_seconds": 3600})
	c.save(id, 2, "save_weights", "kept", object{"ttl_seconds": 3600})
	c.save(id, 3, "save_weights", "gone", nil)
	at := "training_runs/" + id + "/checkpoints"
	if status, out := c.do("DELETE", at+"/gone", nil); status != 404 || !strings.Contains(out["detail"].(string), "want weights/NAME") {
		t.Errorf("a wrong name: %d, %v", status, out)
	}
	c.got("DELETE", at+"/weights/gone", nil)
	if status, _ := c.do("DELETE", at+"/weights/gone", nil); status != 404 {
		t.Errorf("deleted twice: %d", status)
	}
	if status, out := c.do("PUT", at+"/weights/kept/ttl", object{"ttl_seconds": 60}); status != 400 {
		t.Errorf("%d, %v", status, out)
	}
	c.got("PUT", at+"/weights/kept/ttl", object{"ttl_seconds": nil})
	c.server.all.store.expire(time.Now().Add(time.Hour-time.Minute), func(line string) { t.Error(line) })
	if got := names(c.got("GET", at, nil), "checkpoints", "checkpoint_id"); len(got) != 2 {
		t.Errorf("before the time: %v", got)
	}
	c.server.all.store.expire(time.Now().Add(time.Hour+time.Minute), func(line string) { t.Error(line) })
	if got := names(c.got("GET", at, nil), "checkpoints", "checkpoint_id"); !slices.Equal(got, []string{"weights/kept"}) {
		t.Errorf("after it: %v", got)
	}
	if status, out := c.do("POST", "weights_info", object{"tinker_path": one}); status != 404 {
		t.Errorf("%d, %v", status, out)
	}
	short := c.call("save_weights", object{"model_id": id, "seq_id": 4, "path": "x", "ttl_seconds": 1, "type": "save_weights"})
	if _, failed := c.result(short); !strings.HasPrefix(failed, "ttl_seconds is 1: want 3600") {
		t.Error(failed)
	}
}

// A copy is a checkpoint of its own that trains and samples, and the same call again is the same copy.
func TestCopies(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	path := c.save(id, 1, "save_weights", "one", nil)
	in := object{"source_path": path, "destination_project_id": "p"}
	_, copied := c.do("POST", "copy_weights", in, "X-Idempotency-Key", "k")
	_, again := c.do("POST", "copy_weights", in, "X-Idempotency-Key", "k")
	_, other := c.do("POST", "copy_weights", in)
	to := copied["tinker_path"]
	if to != again["tinker_path"] || to == other["tinker_path"] || to == path {
		t.Errorf("%v, %v, %v", copied, again, other)
	}
	c.save(c.model(7), 1, "save_weights", "one", nil)
	in["session_id"], in["model_seq_id"] = c.session, 7
	if status, out := c.do("POST", "copy_weights", in); status != http.StatusUnprocessableEntity {
		t.Errorf("onto another checkpoint: %d, %v", status, out)
	}
	c.got("DELETE", "training_runs/"+id+"/checkpoints/weights/one", nil)
	c.must(c.call("load_weights", object{
		"session_id": c.session, "model_seq_id": 1, "path": to, "optimizer": true, "type": "load_weights"}))
	if status, out := c.do("POST", "copy_weights", in, "X-Tinker-Weights-Access-Token", "x"); status != 400 {
		t.Errorf("%d, %v", status, out)
	}
}

// An archive is a link that needs no key, and holds the files of the checkpoint.
func TestArchives(t *testing.T) {
	c := serve(t, func(o *Options) { o.Token = "tml-secret" })
	c.key = "tml-secret"
	id := c.model(0)
	c.save(id, 1, "save_weights", "one", nil)
	at := c.url + "/api/v1/training_runs/" + id + "/checkpoints/weights/one/archive"
	get := func(url, key string, proto ...string) *http.Response {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		r.Header.Set("X-API-Key", key)
		r.Header["X-Forwarded-Proto"] = proto
		stay := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := stay.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	if resp := get(at, "tml-other"); resp.StatusCode != 401 {
		t.Errorf("another key: %d", resp.StatusCode)
	}
	resp := get(at, "tml-secret")
	link := resp.Header.Get("Location")
	if _, err := http.ParseTime(resp.Header.Get("Expires")); resp.StatusCode != http.StatusFound || err != nil {
		t.Fatalf("%d, %v, %v", resp.StatusCode, resp.Header, err)
	}
	zipped, err := gzip.NewReader(get(link, "").Body)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for in := tar.NewReader(zipped); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, head.Name)
	}
	for _, want := range []string{"adapter_config.json", "adapter_model.safetensors", madeName} {
		if !slices.Contains(files, want) {
			t.Errorf("the archive has %v", files)
		}
	}
	for proto, want := range map[string]string{
		"https": "https://", "HTTPS, http": "https://", "http": "http://", "http, https": "http://", "javascript:": "http://", "": "http://",
	} {
		want += strings.TrimPrefix(c.url, "http://") + archivePath
		if got := get(at, "tml-secret", proto).Header.Get("Location"); !strings.HasPrefix(got, want) {
			t.Errorf("behind a proxy that says %q: %s", proto, got)
		}
	}
	for _, wrong := range []string{link + "x", strings.Replace(link, "expires=", "expires=9", 1), strings.Replace(link, "/one?", "/two?", 1)} {
		if resp := get(wrong, ""); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", wrong, resp.StatusCode)
		}
	}
}

func TestBadManagement(t *testing.T) {
	c := serve(t, nil)
	for _, bad := range []struct {
		method, path string
		body         any
		status       int
		want         string
	}{
		{"GET", "checkpoints?limit=0", nil, 400, `limit is "0": want a number, limit 1 to 1000`},
		{"GET", "training_runs?offset=-1", nil, 400, `offset is "-1"`},
		{"GET", "training_runs/x", nil, 404, `there is no training run "x"`},
		{"GET", "training_runs/x/checkpoints", nil, 404, `there is no training run "x"`},
		{"GET", "sessions/x", nil, 404, `there is no session "x"`},
		{"PUT", "sessions/x/project", object{"project_id": "p"}, 404, `there is no session "x"`},
		{"PUT", "sessions/x/project", object{}, 400, "project_id is missing"},
		{"POST", "sessions/search", object{"limit": 0}, 400, "limit is 0: want 1 to 200"},
		{"DELETE", "training_runs/x/checkpoints/sessions/0", nil, 400, `the path "tinker://x/sessions/0" is not that of a checkpoint`},
		{"DELETE", "training_runs/x/checkpoints/weights/..%2Fy", nil, 400, "the path"},
		{"GET", "training_runs/x/checkpoints/weights/y/archive", nil, 404, "there is no checkpoint tinker://x/weights/y"},
		{"POST", "copy_weights", object{"source_path": "tinker://x/weights/y"}, 404, "there is no checkpoint"},
		{"POST", "create_custom_loss", object{}, 404, "create_custom_loss is not in this version: pass a function"},
		{"POST", "retrieve_futures", object{}, 404, "retrieve_futures is not in this version"},
		{"GET", "billing/usage/events", nil, 404, "billing/usage/events is not in this version"},
		{"GET", "audit", nil, 404, "audit is not in this version"},
		{"GET", "create_session", nil, 405, "/api/v1/create_session takes POST, not GET"},
		{"PUT", "sessions/x", nil, 405, "/api/v1/sessions/x takes GET, not PUT"},
		{"POST", "create_session", []int{1}, 400, "the body: got array, want an object"},
		{"POST", "create_model", object{"model_seq_id": 1.5}, 400, "the body: model_seq_id: got number 1.5, want an integer of 64 bits"},
		{"GET", "sessions/x/trace_export", nil, 404, "sessions/x/trace_export is not in this version"},
	} {
		status, out := c.do(bad.method, bad.path, bad.body)
		if detail, _ := out["detail"].(string); status != bad.status || !strings.HasPrefix(detail, bad.want) {
			t.Errorf("%s %s: %d, %v; want %d, %s", bad.method, bad.path, status, out, bad.status, bad.want)
		}
	}
}
