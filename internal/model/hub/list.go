package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// remoteFile is a file of a repository and the address of its content.
type remoteFile struct {
	path string
	url  string
	etag string // names the blob; empty until inspect has run
	size int64  // −1 if the server does not say
}

const maxListing = 64 << 20 // bytes

// list asks the server for the commit of the revision and for the files that a model or dataset
// needs.
func (c *client) list(ctx context.Context, r repository) (commit string, files []remoteFile, err error) {
	if r.modelScope {
		commit, files, err = c.listModelScope(ctx, r)
	} else {
		commit, files, err = c.listHuggingFace(ctx, r)
	}
	if err != nil {
		return "", nil, err
	}
	if !commitPattern.MatchString(commit) {
		return "", nil, fmt.Errorf("hub: %s: the server names commit %q; expected 40 hexadecimal digits", r, commit)
	}
	var needed []remoteFile
	held := false
	for _, f := range files {
		if !r.wanted(f.path) {
			continue
		}
		held = held || r.holds(f.path)
		if !safePath(f.path) {
			return "", nil, fmt.Errorf("hub: %s: the server lists the file %q, which lies outside the repository's directory", r, f.path)
		}
		needed = append(needed, f)
	}
	if !r.dataset && (!lists(needed, "config.json") || !r.noWeights && !lists(needed, weightsEnding)) || !held {
		missing := "config.json with safetensors weights"
		if r.dataset {
			missing = "data files"
		}
		return "", nil, fmt.Errorf("hub: %s has no %s among its %d files", r, missing, len(files))
	}
	return commit, needed, nil
}

func lists(files []remoteFile, ending string) bool {
	return slices.ContainsFunc(files, func(f remoteFile) bool { return strings.HasSuffix(f.path, ending) })
}

func (c *client) listHuggingFace(ctx context.Context, r repository) (string, []remoteFile, error) {
	var answer struct {
		SHA      string
		Siblings []struct {
			Name string `json:"rfilename"`
		}
	}
	address := fmt.Sprintf("%s/api/%s/%s/revision/%s", c.huggingFace, r.kind(), r.id, url.PathEscape(r.revision))
	if err := c.getJSON(ctx, r, address, &answer); err != nil {
		return "", nil, err
	}
	prefix := c.huggingFace + "/"
	if r.dataset {
		prefix += "datasets/"
	}
	var files []remoteFile
	for _, s := range answer.Siblings {
		address := prefix + r.id + "/resolve/" + url.PathEscape(answer.SHA) + "/" + escapePath(s.Name)
		files = append(files, remoteFile{path: s.Name, size: -1, url: address})
	}
	return answer.SHA, files, nil
}

// listModelScope lists the files page by page. ModelScope has no commits, so contentCommit makes
// one from the files' sums: equal content has an equal snapshot.
func (c *client) listModelScope(ctx context.Context, r repository) (string, []remoteFile, error) {
	const pageSize = 200
	root := fmt.Sprintf("%s/api/v1/%s/%s/repo", c.modelScope, r.kind(), r.id)
	revision := url.QueryEscape(r.revision)
	address := root + "/files?Recursive=true&Revision=" + revision
	if r.dataset {
		address = fmt.Sprintf("%s/tree?Recursive=true&Revision=%s&PageSize=%d&PageNumber=", root, revision, pageSize)
	}
	var files []remoteFile
	for page := 1; ; page++ {
		var answer struct {
			Success bool
			Message string
			Data    struct {
				Files []struct {
					Path, Type, Sha256 string
					Size               int64
				}
			}
		}
		of := address
		if r.dataset {
			of += strconv.Itoa(page)
		}
		if err := c.getJSON(ctx, r, of, &answer); err != nil {
			return "", nil, err
		}
		if !answer.Success {
			return "", nil, fmt.Errorf("hub: %s: the server answers %q", r, answer.Message)
		}
		for _, f := range answer.Data.Files {
			if f.Type == "tree" || !r.wanted(f.Path) {
				continue
			}
			if !sha256Pattern.MatchString(f.Sha256) || f.Size < 0 {
				return "", nil, fmt.Errorf("hub: %s: the server names no SHA-256 sum of %s", r, f.Path)
			}
			content := root + "?Revision=" + revision + "&FilePath=" + url.QueryEscape(f.Path)
			files = append(files, remoteFile{path: f.Path, etag: f.Sha256, size: f.Size, url: content})
		}
		if !r.dataset || len(answer.Data.Files) < pageSize {
			return contentCommit(files), files, nil
		}
	}
}

func contentCommit(files []remoteFile) string {
	var lines []string
	for _, f := range files {
		lines = append(lines, f.etag+" "+f.path+"\n")
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:20])
}

// inspect asks for a file's etag and size if the listing has none.
func (c *client) inspect(ctx context.Context, r repository, f *remoteFile) error {
	if f.etag != "" {
		return nil
	}
	response, err := c.do(ctx, r, http.MethodHead, f.url, 0)
	if err != nil {
		return fmt.Errorf("%w (file %s)", err, f.path)
	}
	response.Body.Close()
	// The answer for a large file is a redirect whose headers hold the file's etag and size.
	for at := response; at != nil && f.etag == ""; at = at.Request.Response {
		f.etag = at.Header.Get("X-Linked-Etag")
		f.size = sizeOf(at.Header.Get("X-Linked-Size"))
	}
	if f.etag == "" {
		f.etag, f.size = response.Header.Get("ETag"), sizeOf(response.Header.Get("Content-Length"))
	}
	f.etag = strings.Trim(strings.TrimPrefix(f.etag, "W/"), `"`)
	if !etagPattern.MatchString(f.etag) {
		return fmt.Errorf("hub: %s: %s: the server names etag %q; expected a hash", r, f.path, f.etag)
	}
	return nil
}

func sizeOf(header string) int64 {
	if n, err := strconv.ParseInt(header, 10, 64); err == nil && n >= 0 {
		return n
	}
	return -1
}

func (c *client) getJSON(ctx context.Context, r repository, address string, into any) error {
	response, err := c.do(ctx, r, http.MethodGet, address, 0)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(io.LimitReader(response.Body, maxListing)).Decode(into); err != nil {
		return fmt.Errorf("hub: %s: cannot read the answer of %s: %w", r, address, err)
	}
	return nil
}

func escapePath(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}
