package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPullFetchesFromModelScope(t *testing.T) {
	files := map[string]string{"config.json": "{}", "model.safetensors": strings.Repeat("w", 1000), "sub/x.json": "{}"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("ModelScope gets the token of Hugging Face")
		}
		if r.URL.Query().Get("Revision") != "master" {
			t.Errorf("revision in %s", r.URL)
		}
		switch r.URL.Path {
		case "/api/v1/models/org/name/repo/files":
			list := []map[string]any{{"Path": "sub", "Type": "tree"}}
			for path, content := range files {
				list = append(list, map[string]any{"Path": path, "Type": "blob", "Size": len(content), "Sha256": sum([]byte(content))})
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"Code": 200, "Success": true, "Data": map[string]any{"Files": list}})
		case "/api/v1/models/org/name/repo":
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(files[r.URL.Query().Get("FilePath")]))
		case "/api/v1/datasets/org/data/repo/tree":
			var list []map[string]any
			for i := range map[string]int{"1": 200, "2": 3}[r.URL.Query().Get("PageNumber")] {
				path := fmt.Sprintf("data/p%s-%d.jsonl", r.URL.Query().Get("PageNumber"), i)
				list = append(list, map[string]any{"Path": path, "Type": "blob", "Size": len(path), "Sha256": sum([]byte(path))})
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"Code": 200, "Success": true, "Data": map[string]any{"Files": list}})
		case "/api/v1/datasets/org/data/repo":
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(r.URL.Query().Get("FilePath")))
		case "/api/v1/models/org/none/repo/files":
			_, _ = w.Write([]byte(`{"Success":false,"Message":"no such model"}`))
		default:
			t.Errorf("unexpected request %s", r.URL)
		}
	}))
	defer server.Close()
	t.Setenv("MODELSCOPE_ENDPOINT", server.URL)
	t.Setenv("HF_TOKEN", "secret")
	t.Setenv("HF_HUB_OFFLINE", "")
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	dir, err := Pull(context.Background(), "modelscope://org/name", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "model.safetensors")); string(got) != files["model.safetensors"] {
		t.Errorf("weights of %d bytes", len(got))
	}
	if again, ok := Cached("modelscope://org/name"); !ok || again != dir {
		t.Errorf("cached %s %v, want %s", again, ok, dir)
	}
	if dir, ok := Cached("org/name"); ok {
		t.Errorf("%s counts as Hugging Face's", dir)
	}
	dir, err = Pull(context.Background(), "modelscope://datasets/org/data", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(filepath.Join(dir, "data")); len(entries) != 203 {
		t.Errorf("the dataset has %d files, want 203", len(entries))
	}
	if _, err := Pull(context.Background(), "modelscope://org/none", Options{}); err == nil ||
		!strings.Contains(err.Error(), "no such model") {
		t.Errorf("error %v", err)
	}
}

func TestNamesAreParsed(t *testing.T) {
	for name, want := range map[string]repository{
		"org/name":                       {id: "org/name", revision: "main"},
		"gpt2":                           {id: "gpt2", revision: "main"},
		"hf://org/na.me-1":               {id: "org/na.me-1", revision: "main"},
		"hf://datasets/org/d@refs/pr/1":  {dataset: true, id: "org/d", revision: "refs/pr/1"},
		"models/org/name@v1":             {id: "org/name", revision: "v1"},
		"modelscope://org/name":          {modelScope: true, id: "org/name", revision: "master"},
		"modelscope://datasets/org/name": {modelScope: true, dataset: true, id: "org/name", revision: "master"},
	} {
		if got, err := parseName(name); err != nil || got != want {
			t.Errorf("%s is %+v (%v), want %+v", name, got, err, want)
		}
	}
	for _, name := range []string{"", "a/b/c", "../x", "org/..", "org/a..b", "/abs", "org/name@../x", "org/na me", "a--b/c",
		"org/x.git", "hf://", "https://x/y", `a\b`, "./x", "org/name@/x"} {
		if got, err := parseName(name); err == nil {
			t.Errorf("%q is %+v, want an error", name, got)
		}
	}
}
