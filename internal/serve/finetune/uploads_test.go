package finetune

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// upload begins an upload of a text, and returns its ID.
func (c *tester) upload(owner string, bytes int) string {
	c.t.Helper()
	order := map[string]any{"bytes": bytes, "filename": "a/rows.jsonl", "mime_type": "text/jsonl", "purpose": "fine-tune"}
	u := c.good(owner, "POST", "uploads", order)
	if u["object"] != "upload" || u["status"] != "pending" || u["expires_at"].(float64) != u["created_at"].(float64)+3600 {
		c.t.Errorf("%v", u)
	}
	return u["id"].(string)
}

// part sends a part of an upload, and returns its ID.
func (c *tester) part(owner, id, text string) string {
	c.t.Helper()
	return c.good(owner, "POST", "uploads/"+id+"/parts", formOf("data", text))["id"].(string)
}

func TestUploads(t *testing.T) {
	c := serve(t, "", func(o *Options) { o.Disk = func(string) int64 { return 1000 } })
	id := c.upload("ann", 6)
	a, b := c.part("ann", id, "{}\n"), c.part("ann", id, "[]\n")
	path := "uploads/" + id
	c.refused("bob", "POST", path+"/parts", formOf("data", "x"), 404, "there is no upload")
	c.refused("bob", "POST", path+"/complete", map[string]any{"part_ids": []string{}}, 404, "there is no upload")
	c.refused("ann", "POST", path+"/parts", formOf("data", "1234567"), 400, "with it 13 have come: the upload has 6")
	c.part("ann", id, "{}\n") // once more, by a client that got no answer
	c.refused("ann", "POST", path+"/parts", formOf("data", ""), 400, "the part has 0 bytes")
	c.refused("ann", "POST", path+"/parts", formOf("file", "x"), 400, "the form has no data")
	c.refused("ann", "POST", path+"/complete", map[string]any{"part_ids": []string{b}}, 400, "the parts have 3 bytes")
	c.refused("ann", "POST", path+"/complete", map[string]any{"part_ids": []string{b, b}}, 400, "or it is there twice")
	c.refused("ann", "POST", path+"/complete", map[string]any{"part_ids": []string{"../upload.json"}}, 400, "has no part")
	whole := map[string]any{"part_ids": []string{b, a}, "md5": "00"}
	c.refused("ann", "POST", path+"/complete", whole, 400, "the file that has come has the MD5 5a09f2521917f9281c62dc837ffdef0a")
	again := serve(t, c.dir, nil) // parts outlive the service
	if n := again.s.files.used("ann"); n != 9 {
		t.Errorf("the parts count %d bytes", n)
	}
	whole["md5"] = "5A09F2521917F9281C62DC837FFDEF0A"
	done := again.good("ann", "POST", path+"/complete", whole)
	file := done["file"].(map[string]any)
	if done["status"] != "completed" || file["filename"] != "rows.jsonl" || file["bytes"] != 6.0 || file["purpose"] != "fine-tune" {
		t.Errorf("%v", done)
	}
	if same := again.good("ann", "POST", path+"/complete", whole)["file"].(map[string]any); same["id"] != file["id"] {
		t.Errorf("a repeated request makes the file %v, not %v", same["id"], file["id"])
	}
	if text := again.good("ann", "GET", "files/"+file["id"].(string)+"/content", nil)["text"]; text != "[]\n{}\n" {
		t.Errorf("%q", text)
	}
	if n := again.s.files.used("ann"); n != 6 {
		t.Errorf("the file counts %d bytes", n)
	}
	again.refused("ann", "POST", path+"/parts", formOf("data", "x"), 400, "is completed")
	again.refused("ann", "POST", path+"/cancel", nil, 400, "is completed")
}

func TestUploadsEnd(t *testing.T) {
	c := serve(t, "", func(o *Options) { o.Disk = func(string) int64 { return 1000 } })
	id := c.upload("ann", 6)
	c.part("ann", id, "abc")
	if u := c.good("ann", "POST", "uploads/"+id+"/cancel", nil); u["status"] != "cancelled" {
		t.Errorf("%v", u)
	}
	c.refused("ann", "POST", "uploads/"+id+"/complete", map[string]any{"part_ids": []string{}}, 400, "is cancelled")
	late := c.upload("ann", 900)
	c.part("ann", late, strings.Repeat("x", 600))
	c.refused("ann", "POST", "files", formOf("file", strings.Repeat("x", 401), "purpose", "batch"), 403, "files and jobs of the key ann")
	c.s.uploads.all[late].ExpiresAt = now()
	c.refused("ann", "POST", "uploads/"+late+"/parts", formOf("data", "x"), 404, "one lives for an hour")
	if n := c.s.files.used("ann"); n != 0 {
		t.Errorf("ended uploads count %d bytes", n)
	}
	for words, change := range map[string]map[string]any{
		"want the bytes of the file, from 1 to 536870912, got 0": {"bytes": 0},
		"want the name":                {"filename": ""},
		"want one of fine-tune":        {"purpose": "x"},
		"want the anchor":              {"expires_after": map[string]any{"anchor": "x", "seconds": 3600}},
		"would take":                   {"bytes": 2000},
		`unknown field "parts"`:        {"parts": 1},
		"cannot unmarshal string into": {"bytes": "x"},
	} {
		order := map[string]any{"bytes": 1, "filename": "x", "mime_type": "x", "purpose": "batch"}
		for key, value := range change {
			order[key] = value
		}
		status := 400
		if words == "would take" {
			status = 403
		}
		c.refused("ann", "POST", "uploads", order, status, words)
	}
	if left, err := os.ReadDir(filepath.Join(c.dir, uploadsDir)); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

// Files that arrive together take no more than their key may have.
func TestFilesThatArriveCount(t *testing.T) {
	c := serve(t, "", func(o *Options) { o.Disk = func(string) int64 { return 100 } })
	path := filepath.Join(c.dir, "first")
	err := c.s.files.receive("ann", path, func(w io.Writer) error {
		if _, err := io.WriteString(w, strings.Repeat("x", 60)); err != nil {
			return err
		}
		c.refused("ann", "POST", "files", formOf("file", strings.Repeat("x", 41), "purpose", "batch"), 403, "files and jobs of the key ann")
		c.file("ann", strings.Repeat("x", 39))
		return nil
	})
	if n := c.s.files.used("ann"); err != nil || n != 39 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// A job copies its files, which counts, too.
func TestCopiesOfJobsCount(t *testing.T) {
	limit := int64(3*len(chat) - 1)
	c := serve(t, "", func(o *Options) { o.Disk = func(string) int64 { return limit } })
	order := map[string]any{"model": "org/tiny", "training_file": c.file("ann", chat), "seed": 1}
	order["validation_file"] = order["training_file"]
	c.refused("ann", "POST", "fine_tuning/jobs", order, 403, "files and jobs of the key ann would take")
	if left, err := os.ReadDir(filepath.Join(c.dir, jobsDir)); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	limit++
	c.good("ann", "POST", "fine_tuning/jobs", order)
}
