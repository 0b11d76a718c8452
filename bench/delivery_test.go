package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestDelivered(t *testing.T) {
	d := &delivered{Write: 1, Transfer: 2, Load: 3, Hash: 1, Prove: 1}
	const want = "write 1.00, transfer 2.00, load 3.00, hash 1.00, prove 1.00 s; hash and proof 25 %"
	if d.String() != want {
		t.Errorf("got %q, want %q", d, want)
	}
	row := Row{Workload: "delivery_sglang"}
	if got := row.target(); got != "proof ≤ 33 %" {
		t.Errorf("target %q", got)
	}
}

// The relay passes requests on, and tells the time of a path once.
func TestRelay(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }))
	defer web.Close()
	r, err := newRelay(web.URL + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(r.web.URL + "/load")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "/load" {
		t.Errorf("the server got %q, %v", body, err)
	}
	r.web.Close() // waits for the reply's time
	if first, again := r.take("/load"), r.take("/load"); first <= 0 || again != 0 {
		t.Errorf("took %v s, and then %v", first, again)
	}
}
