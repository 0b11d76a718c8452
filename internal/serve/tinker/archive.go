package tinker

import (
	"archive/tar"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// linkLife is how long the link to an archive is good. It ends with the service, too.
const linkLife = time.Hour

// archives adds the downloads of checkpoints. The first call answers with a link that is signed, which needs no key: 302, as
// the SDK below 0.37 wants it.
func (s *store) archives(mux *http.ServeMux) {
	const one = "/{run}/{kind}/{name}"
	mux.HandleFunc("GET /api/v1/"+oneCheckpoint+"/archive", func(w http.ResponseWriter, r *http.Request) {
		c, err := s.readable(Owner(r.Context()), pathOf(r).String())
		if err != nil {
			answer(w, nil, err)
			return
		}
		ends := time.Now().Add(linkLife)
		query := url.Values{"expires": {strconv.FormatInt(ends.Unix(), 10)}, "signature": {s.sign(c, ends)}}
		link := schemeOf(r) + r.Host + archivePath + c.path.Run + "/" + c.path.Kind + "/" + c.path.Name + "?" + query.Encode()
		w.Header().Set("Expires", ends.UTC().Format(http.TimeFormat))
		http.Redirect(w, r, link, http.StatusFound)
	})
	mux.HandleFunc("GET "+archivePath[:len(archivePath)-1]+one, func(w http.ResponseWriter, r *http.Request) {
		c, err := s.linked(r)
		if err != nil {
			answer(w, nil, err)
			return
		}
		w.Header().Set("Content-Type", "application/gzip")
		w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", c.path.Name+".tar.gz"))
		if err := c.archive(w); err != nil {
			panic(http.ErrAbortHandler) // the client must not take half an archive for a whole one
		}
	})
}

// archivePath is where links to archives lead.
const archivePath = "/api/v1/archives/"

// schemeOf returns by what a client reaches the service: a proxy that speaks TLS in front of it says so. A wrong word of a client
// gives a wrong link to itself alone.
func schemeOf(r *http.Request) string {
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",") // of several proxies, what the client spoke to
	if r.TLS != nil || strings.EqualFold(strings.TrimSpace(first), "https") {
		return "https://"
	}
	return "http://"
}

// sign returns the signature of a link to what a checkpoint is now.
func (s *store) sign(c *checkpoint, ends time.Time) string {
	h := hmac.New(sha256.New, s.linkKey)
	fmt.Fprintf(h, "%s\n%s\n%d", c.path, c.Written, ends.Unix())
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// linked returns the checkpoint of a link that is good.
func (s *store) linked(r *http.Request) (*checkpoint, error) {
	p, err := tinker.ParsePath(pathOf(r).String())
	if err != nil {
		return nil, bad("%v", err)
	}
	refused := &problem{status: http.StatusForbidden, text: "the link has expired or is not of this service: ask for the archive again"}
	unix, err := strconv.ParseInt(r.URL.Query().Get("expires"), 10, 64)
	if err != nil || time.Now().Unix() > unix {
		return nil, refused
	}
	c, err := s.find(p)
	if err != nil || !hmac.Equal([]byte(s.sign(c, time.Unix(unix, 0))), []byte(r.URL.Query().Get("signature"))) {
		return nil, refused
	}
	return c, nil
}

// archive writes the files of a checkpoint as tar.gz.
func (c *checkpoint) archive(to io.Writer) error {
	root, err := os.OpenRoot(c.dir) // stays with these files if another checkpoint takes the name
	if err != nil {
		return err
	}
	defer root.Close()
	files, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	zipped, err := gzip.NewWriterLevel(to, gzip.BestSpeed) // weights hardly shrink
	if err != nil {
		return err
	}
	out := tar.NewWriter(zipped)
	for _, f := range files {
		if err := c.addTo(out, root, f.Name()); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	return zipped.Close()
}

func (c *checkpoint) addTo(out *tar.Writer, root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	head := &tar.Header{Name: name, Mode: 0o644, Size: info.Size(), ModTime: c.Time, Typeflag: tar.TypeReg}
	if err := out.WriteHeader(head); err != nil {
		return err
	}
	_, err = io.CopyN(out, f, info.Size())
	return err
}
