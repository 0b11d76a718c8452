package annotate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// site serves a book with n pairs.
func site(t *testing.T, token string, n int) (*Book, *httptest.Server) {
	t.Helper()
	b := openBook(t, t.TempDir(), Terms{Overlap: 1, Lease: 30 * time.Second}, n)
	s := httptest.NewServer((&Server{Book: b, Token: token}).Handler())
	t.Cleanup(s.Close)
	return b, s
}

// ask posts to the site like its page.
func ask(t *testing.T, s *httptest.Server, path, body string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/api/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// asked returns the reply to a request that must succeed.
func asked(t *testing.T, s *httptest.Server, path, body string) reply {
	t.Helper()
	status, text := ask(t, s, path, body)
	var r reply
	if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK {
		t.Fatalf("%s %s: status %d: %s", path, body, status, text)
	}
	return r
}

// In a whole session the book translates left and right into the order of the data.
func TestSessionJudgesEveryPair(t *testing.T) {
	b, s := site(t, "", 8)
	for i, c := range names {
		r := asked(t, s, "next", `{"annotator":"ann"}`)
		p := pairOf(b, string(c))
		if r.Pair == nil || r.Pair.ID != p.ID || r.Pair.Prompt[0].Content != string(c) || r.Renew != 10 || r.Progress.Mine != i {
			t.Fatalf("%+v", r)
		}
		if left := b.Left(p.ID, "ann"); r.Pair.Left != p.Answers[left] || r.Pair.Right != p.Answers[1-left] {
			t.Errorf("%s: %+v, want answer %d left", p.ID, r.Pair, left)
		}
		asked(t, s, "decide", fmt.Sprintf(`{"annotator":"ann","pair":%q,"verdict":%q,"ratings":{"left":5,"right":1},`+
			`"edits":{"left":"L%s","right":null}}`,
			p.ID, []string{"left", "right", "tie", "skip"}[i%4], string(c)))
		d := b.decided[i][0]
		left := b.Left(p.ID, "ann")
		sides := map[string]Verdict{"left": [2]Verdict{First, Second}[left], "right": [2]Verdict{Second, First}[left], "tie": Tie, "skip": Skip}
		if want := sides[[]string{"left", "right", "tie", "skip"}[i%4]]; d.Verdict != want || d.Ratings[left] != 5 ||
			d.Ratings[1-left] != 1 || *d.Edits[left] != "L"+string(c) || d.Edits[1-left] != nil {
			t.Errorf("pair %d with answer %d left: %+v, want %s", i, left, d, want)
		}
	}
	if r := asked(t, s, "next", `{"annotator":"ann"}`); r.Pair != nil || r.Progress.Done != 6 || r.Progress.Skipped != 2 ||
		r.Progress.Mine != 8 {
		t.Errorf("at the end: %+v", r)
	}
	r := asked(t, s, "undo", `{"annotator":"ann"}`)
	if r.Pair == nil || r.Pair.ID != pairOf(b, "w").ID || r.Pair.Before.Ratings != (sides[int]{5, 1}) ||
		*r.Pair.Before.Edits.Left != "Lw" || r.Pair.Before.Edits.Right != nil {
		t.Errorf("undone: %+v", r.Pair)
	}
	if r := asked(t, s, "undo", `{"annotator":"bob"}`); r.Pair == nil || r.Pair.Before != nil {
		t.Errorf("an annotator without decisions undoes %+v", r.Pair)
	}
}

func TestServerRefusesBadRequests(t *testing.T) {
	b, s := site(t, "", 1)
	say(t, b, "p", "ann", First)
	id := pairOf(b, "p").ID
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"next", `{"annotator":""}`, 400, "0 characters"},
		{"next", `{`, 400, "unexpected EOF"},
		{"next", `{"x":1}`, 400, "unknown field"},
		{"next", `{"annotator":"` + strings.Repeat("x", maxRequest) + `"}`, 413, "more than"},
		{"undo", `{"annotator":""}`, 400, "0 characters"},
		{"decide", `{"annotator":"ann","pair":"x","verdict":"left"}`, 400, "reload the page"},
		{"decide", `{"annotator":"ann","pair":"` + id + `","verdict":"undo"}`, 400, "want left, right, tie or skip"},
		{"decide", `{"annotator":"ann","pair":"` + id + `","verdict":"tie"}`, 409, "undo that first"},
		{"decide", `{"annotator":"bob","pair":"` + id + `","verdict":"tie","ratings":{"left":9}}`, 400, "a rating of 9"},
	} {
		if status, text := ask(t, s, c.path, c.body); status != c.status || !strings.Contains(text, c.want) || !json.Valid([]byte(text)) {
			t.Errorf("%s %.80s: %d %s, want %d with %q", c.path, c.body, status, text, c.status, c.want)
		}
	}
	b.log.Close()
	if status, text := ask(t, s, "decide", `{"annotator":"bob","pair":"`+id+`","verdict":"tie"}`); status != 500 {
		t.Errorf("a decision that was not written is acknowledged with %d %s", status, text)
	}
	if p := b.Progress(""); p.Judged != 1 {
		t.Errorf("and counted: %+v", p)
	}
}

// The server refuses pages of another site that post from the browser, and host names that another
// site has bound to this machine.
func TestForeignPagesAreRefused(t *testing.T) {
	_, s := site(t, "", 1)
	_, open := site(t, "secret", 1)
	const body = `{"annotator":"ann"}`
	for _, c := range []struct {
		site    *httptest.Server
		headers []string
		status  int
	}{
		{s, nil, 200},
		{s, []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{s, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{s, []string{"Origin", "http://evil.example"}, 403},
		{s, []string{"Host", "evil.example:80"}, 403},
		{s, []string{"Host", "localhost"}, 200},
		{s, []string{"Host", "[::1]:80"}, 200},
		{s, []string{"Host", "10.0.0.1:80"}, 403},
		{open, nil, 401},
		{open, []string{"Authorization", "Bearer wrong"}, 401},
		{open, []string{"Authorization", "Bearer secret"}, 200},
		{open, []string{"Authorization", "Bearer secret", "Host", "annotate.example"}, 200},
		{open, []string{"Authorization", "Bearer secret", "Sec-Fetch-Site", "cross-site"}, 403},
	} {
		if status, text := ask(t, c.site, "next", body, c.headers...); status != c.status {
			t.Errorf("%v: %d %s, want %d", c.headers, status, text, c.status)
		}
	}
	if resp, err := http.Get(s.URL + "/api/next"); err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET of data: %v, %v", resp.StatusCode, err)
	}
}

// The page loads nothing from other sites, and its headers make the browser refuse to.
func TestPageLoadsNothingForeign(t *testing.T) {
	_, s := site(t, "", 1)
	for path, kind := range map[string]string{"/": "text/html", "/page.js": "javascript", "/page.css": "text/css"} {
		resp, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		h := resp.Header
		if err != nil || resp.StatusCode != 200 || !strings.Contains(h.Get("Content-Type"), kind) {
			t.Errorf("%s: %v %v %v", path, resp.Status, h, err)
		}
		if csp := h.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; script-src 'self';") ||
			strings.Contains(csp, "unsafe") {
			t.Errorf("%s: %s", path, csp)
		}
		for _, bad := range []string{"http://", "https://", "innerHTML", "insertAdjacentHTML", "document.write", "eval(", "onclick", "style="} {
			if bytes.Contains(text, []byte(bad)) {
				t.Errorf("%s contains %s", path, bad)
			}
		}
	}
	if resp, err := http.Get(s.URL + "/page/index.html"); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("another path: %v, %v", resp.Status, err)
	}
}
