package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// site is a running command that serves a page.
type site struct {
	*exec.Cmd
	out   *bufio.Reader
	url   string
	token string
}

// serve starts `trinity annotate` and waits until it serves.
func serve(t *testing.T, args ...string) *site {
	t.Helper()
	return serveWith(t, "Annotate at ", append([]string{"annotate"}, args...)...)
}

// serveWith starts trinity and waits for the line with the address, which begins with some words.
func serveWith(t *testing.T, words string, args ...string) *site {
	t.Helper()
	s := &site{Cmd: exec.CommandContext(t.Context(), "trinity", args...)}
	s.Stderr = os.Stderr
	pipe, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReader(pipe)
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			t.Fatalf("no address was printed: %v", err)
		}
		if rest, ok := strings.CutPrefix(line, words); ok {
			at, _, _ := strings.Cut(rest, " ")
			u, err := url.Parse(at)
			if err != nil {
				t.Fatal(err)
			}
			s.token = u.Query().Get("token") + strings.TrimPrefix(u.Fragment, "token=")
			s.url = "http://127.0.0.1:" + u.Port() + "/"
			return s
		}
	}
}

// ask posts like the page. The answer has only the fields that the tests use.
func (s *site) ask(t *testing.T, path string, body map[string]any) (status int, answer struct {
	Pair *struct{ ID, Left, Right string }
}) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"api/"+path, strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
	}
	return resp.StatusCode, answer
}

// prefer chooses the given answer of the next pair.
func (s *site) prefer(t *testing.T, annotator, answer string) {
	t.Helper()
	_, got := s.ask(t, "next", map[string]any{"annotator": annotator})
	if got.Pair == nil {
		t.Fatalf("%s has nothing to judge", annotator)
	}
	side := "left"
	if got.Pair.Right == answer {
		side = "right"
	}
	if status, _ := s.ask(t, "decide", map[string]any{"annotator": annotator, "pair": got.Pair.ID, "verdict": side}); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
}

// end sends Ctrl-C and returns the remaining output.
func (s *site) end(t *testing.T) string {
	t.Helper()
	if err := s.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(s.out)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Fatalf("it ended with %v: %s", err, rest)
	}
	return string(rest)
}

// The server loses no decision when it is killed, resumes and ends.
func TestAnnotateKeepsDecisions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signals to send to a process")
	}
	dir := t.TempDir()
	data := filepath.Join(dir, "answers.jsonl")
	var rows strings.Builder
	for i := range 3 {
		fmt.Fprintf(&rows, `{"prompt":"p%d","answer1":"good","answer2":"bad"}`+"\n", i)
	}
	if err := os.WriteFile(data, []byte(rows.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--data", data, "--addr", "127.0.0.1:0", "--overlap", "2")
	s.prefer(t, "ann", "good")
	s.prefer(t, "bob", "good")
	s.prefer(t, "ann", "good")
	if err := s.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.Wait() // it was killed

	s = serve(t, "--data", data, "--addr", "0.0.0.0:0", "--overlap", "2")
	if s.token == "" {
		t.Error("an address that other machines can reach has no token")
	}
	for _, token := range []string{"", "wrong"} {
		bad := site{url: s.url, token: token}
		if status, _ := bad.ask(t, "next", map[string]any{"annotator": "ann"}); status != http.StatusUnauthorized {
			t.Errorf("the token %q is answered with %d", token, status)
		}
	}
	s.prefer(t, "bob", "good")
	s.prefer(t, "bob", "bad")
	out := s.end(t)
	for _, want := range []string{"2 of 3 pairs are done.", "Annotators agree on 100 % of 2 pairs",
		"answers.annotations: dpo.jsonl 3 rows, kto.jsonl 6, sft.jsonl 3, decisions.jsonl 5"} {
		if !strings.Contains(out, want) {
			t.Errorf("printed %q, want %q in it", out, want)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "answers.annotations", "dpo.jsonl"))
	want := `{"chosen":"good","prompt":"p0","rejected":"bad"}` + "\n" + `{"chosen":"good","prompt":"p1","rejected":"bad"}` +
		"\n" + `{"chosen":"bad","prompt":"p2","rejected":"good"}` + "\n"
	if err != nil || string(got) != want {
		t.Errorf("dpo.jsonl: %s, %v, want %s", got, err, want)
	}
}
