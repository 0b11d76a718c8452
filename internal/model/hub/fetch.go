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

	"github.com/trinity-go/trinity/internal/durable"
)

// fetch downloads a file to blob, which appears only when it is complete and verified. Processes
// that fetch the same blob wait for each other.
func (c *client) fetch(ctx context.Context, r repository, f remoteFile, blob, lock string, m *meter) error {
	unlock, err := durable.Acquire(ctx, lock)
	if err != nil {
		return fmt.Errorf("hub: %s: %s: %w", r, f.path, err)
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
		if !broken.resumed || attempt == 2 { // retry once without the earlier part, which may be damaged
			return fmt.Errorf("hub: %s: %s: %w", r, f.path, err)
		}
	}
	if err := os.Rename(incomplete, blob); err != nil {
		return fmt.Errorf("hub: %s: %w", r, err)
	}
	return nil
}

// corrupt marks content that differs from the server's announcement. resumed says that an earlier
// attempt downloaded a part of it.
type corrupt struct {
	error
	resumed bool
}

// download completes the file incomplete. It retries after a broken connection; attempts that bring
// no bytes count as failures.
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
			return fmt.Errorf("hub: %s: %s: %w (tried %d times; the next pull resumes the download)", r, f.path, cut.error, attempts)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause *= 2
	}
	return verify(f, file, have, resumed)
}

// interrupted marks a broken connection.
type interrupted struct{ error }

// continueAt requests the file from byte have on, appends the answer and returns the new length.
func (c *client) continueAt(ctx context.Context, r repository, f remoteFile, file *os.File, have int64, m *meter) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	response, err := c.do(ctx, r, http.MethodGet, f.url, have)
	if err != nil {
		return have, err
	}
	defer response.Body.Close()
	start, partial := fmt.Sprintf("bytes %d-", have), response.StatusCode == http.StatusPartialContent
	if !partial || !strings.HasPrefix(response.Header.Get("Content-Range"), start) {
		if have > 0 && partial {
			return have, fmt.Errorf("hub: %s: %s: asked for %s, got %q", r, f.path, start, response.Header.Get("Content-Range"))
		}
		have = 0 // the server sends the whole file, or refuses the range
	}
	if err := errors.Join(file.Truncate(have), seek(file, have)); err != nil {
		return have, fmt.Errorf("hub: %s: %w", r, err)
	}
	if response.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return 0, interrupted{fmt.Errorf("the part of an earlier download is longer than the file")}
	}
	return c.receive(ctx, cancel, f, file, response, have, m)
}

func seek(file *os.File, to int64) error {
	_, err := file.Seek(to, io.SeekStart)
	return err
}

// receive copies the body to the file. It gives up if the server sends nothing for a while or more
// than it announced.
func (c *client) receive(
	ctx context.Context, cancel context.CancelCauseFunc, f remoteFile, file *os.File, response *http.Response, have int64, m *meter,
) (int64, error) {
	watchdog := time.AfterFunc(c.stall, func() { cancel(fmt.Errorf("the server sent nothing for %s", c.stall)) })
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
			return have, corrupt{error: fmt.Errorf("the server sent more than the %d bytes that it announced", f.size)}
		case err == io.EOF && (f.size < 0 || have == f.size):
			return have, nil
		case err == io.EOF:
			return have, interrupted{fmt.Errorf("the server sent %d of %d bytes", have, f.size)}
		case err != nil && context.Cause(ctx) != nil && !errors.Is(context.Cause(ctx), context.Canceled):
			return have, interrupted{context.Cause(ctx)}
		case err != nil:
			return have, interrupted{err}
		}
	}
}

// verify checks the size and, if the etag is a SHA-256 sum, the content. Large files always have
// one.
func verify(f remoteFile, file *os.File, have int64, resumed bool) error {
	if f.size >= 0 && have != f.size {
		return corrupt{fmt.Errorf("the server sent %d bytes; it announced %d", have, f.size), resumed}
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
			return corrupt{fmt.Errorf("the SHA-256 sum is %s; the server announced %s", sum, f.etag), resumed}
		}
	}
	return file.Sync()
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
