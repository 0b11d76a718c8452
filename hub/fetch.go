package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// fetch brings a file's content to blob, which appears only when whole and verified. Processes that want the same blob wait for
// one another.
func (c *client) fetch(ctx context.Context, r repository, f remoteFile, blob, lock string, m *meter) error {
	unlock, err := acquire(ctx, lock)
	if err != nil {
		return fmt.Errorf("hub: %s: %s: lock %s: %w", r, f.path, lock, err)
	}
	defer unlock()
	if info, err := os.Stat(blob); err == nil && (f.size < 0 || info.Size() == f.size) {
		m.set(f, info.Size())
		return nil
	}
	incomplete := blob + ".incomplete"
	for attempt := 1; ; attempt++ {
		err := c.download(ctx, r, f, incomplete, m)
		if err == nil {
			break
		}
		var broken corrupt
		if !errors.As(err, &broken) {
			return err
		}
		os.Remove(incomplete)
		m.set(f, 0)
		if !broken.resumed || attempt == 2 { // a part from elsewhere may be to blame once
			return fmt.Errorf("hub: %s: %s: %w", r, f.path, err)
		}
	}
	if err := os.Rename(incomplete, blob); err != nil {
		return fmt.Errorf("hub: %s: %w", r, err)
	}
	return nil
}

// corrupt marks content that is not what the server announced; resumed, that some of it was here before.
type corrupt struct {
	error
	resumed bool
}

// download completes the file incomplete, going on after broken connections as long as each attempt brings something.
func (c *client) download(ctx context.Context, r repository, f remoteFile, incomplete string, m *meter) error {
	file, err := os.OpenFile(incomplete, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return fmt.Errorf("hub: %s: %w", r, err)
	}
	defer file.Close()
	have, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("hub: %s: %w", r, err)
	}
	resumed := have > 0
	pause, failures := c.backoff, 0
	for f.size < 0 || have < f.size {
		before := have
		have, err = c.continueAt(ctx, r, f, file, have, m)
		if err == nil {
			break
		}
		var cut interrupted
		if !errors.As(err, &cut) {
			return err
		}
		if failures++; have > before {
			pause, failures = c.backoff, 0
		}
		if failures == attempts {
			return fmt.Errorf("hub: %s: %s: %w (tried %d times; what has come is kept)", r, f.path, cut.error, attempts)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause *= 2
	}
	return verify(f, file, have, resumed)
}

// interrupted marks a connection that broke off.
type interrupted struct{ error }

// continueAt requests the file from byte have on, appends what comes, and returns how much there is now.
func (c *client) continueAt(ctx context.Context, r repository, f remoteFile, file *os.File, have int64, m *meter) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	response, err := c.do(ctx, r, http.MethodGet, f.url, have)
	if err != nil {
		return have, err
	}
	defer response.Body.Close()
	if start := fmt.Sprintf("bytes %d-", have); response.StatusCode != http.StatusPartialContent || !strings.HasPrefix(response.Header.Get("Content-Range"), start) {
		if have > 0 && response.StatusCode == http.StatusPartialContent {
			return have, fmt.Errorf("hub: %s: %s: asked for %s, got %q", r, f.path, start, response.Header.Get("Content-Range"))
		}
		have = 0 // the server sends all of it, or says that there is no such rest
	}
	if err := errors.Join(file.Truncate(have), seek(file, have)); err != nil {
		return have, fmt.Errorf("hub: %s: %w", r, err)
	}
	if response.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return 0, interrupted{fmt.Errorf("the part kept from before is longer than the file")}
	}
	return c.receive(ctx, cancel, f, file, response, have, m)
}

func seek(file *os.File, to int64) error {
	_, err := file.Seek(to, io.SeekStart)
	return err
}

// receive copies the body to the file. It gives up when nothing comes for a while, and when more comes than was announced.
func (c *client) receive(ctx context.Context, cancel context.CancelCauseFunc, f remoteFile, file *os.File, response *http.Response, have int64, m *meter) (int64, error) {
	watchdog := time.AfterFunc(c.stall, func() { cancel(fmt.Errorf("nothing came for %s", c.stall)) })
	defer watchdog.Stop()
	buffer := make([]byte, 1<<18)
	for {
		n, err := response.Body.Read(buffer)
		watchdog.Reset(c.stall)
		if n > 0 {
			if _, err := file.Write(buffer[:n]); err != nil {
				return have, fmt.Errorf("hub: %s: %w", file.Name(), err)
			}
			have += int64(n)
			m.set(f, have)
		}
		switch {
		case f.size >= 0 && have > f.size:
			return have, corrupt{error: fmt.Errorf("more than the %d bytes announced came", f.size)}
		case err == io.EOF && (f.size < 0 || have == f.size):
			return have, nil
		case err == io.EOF:
			return have, interrupted{fmt.Errorf("%d of %d bytes came", have, f.size)}
		case err != nil && context.Cause(ctx) != nil && !errors.Is(context.Cause(ctx), context.Canceled):
			return have, interrupted{context.Cause(ctx)}
		case err != nil:
			return have, interrupted{err}
		}
	}
}

// verify checks size and, where the etag is a SHA-256 sum, as of all large files, the content.
func verify(f remoteFile, file *os.File, have int64, resumed bool) error {
	if f.size >= 0 && have != f.size {
		return corrupt{fmt.Errorf("%d bytes came; the server announced %d", have, f.size), resumed}
	}
	if sha256Pattern.MatchString(f.etag) {
		if err := seek(file, 0); err != nil {
			return err
		}
		h := sha256.New()
		if _, err := io.Copy(h, file); err != nil {
			return err
		}
		if sum := hex.EncodeToString(h.Sum(nil)); sum != f.etag {
			return corrupt{fmt.Errorf("its SHA-256 is %s; the server announced %s", sum, f.etag), resumed}
		}
	}
	return file.Sync()
}
