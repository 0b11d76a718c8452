package studio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/serve/web"
)

// maxPosted is the size of the largest request: a configuration in JSON, which escapes some bytes.
const maxPosted = 2*config.MaxFileSize + 1<<16

// authorized serves what changes something, to requests that carry the token [Server.Control].
func authorized(control string, write writer) http.Handler {
	if control == "" {
		write = func(http.ResponseWriter, *http.Request) error { return errReadOnly }
	}
	return web.WithToken(write, control, commandName, web.Refuse)
}

var errReadOnly = refused{errors.New("this studio only shows runs: start it without --read-only"), http.StatusForbidden}

// posted answers requests that check, start or stop something. They carry JSON, which a form of another page
// cannot send.
func posted[T any](control string, reply func(r *http.Request, in T) (any, error)) http.Handler {
	return authorized(control, func(w http.ResponseWriter, r *http.Request) error {
		in, err := decoded[T](w, r)
		if err != nil {
			return err
		}
		out, err := reply(r, in)
		if err == nil {
			web.WriteJSON(w, http.StatusOK, out)
		}
		return err
	})
}

// decoded returns the body of a request.
func decoded[T any](w http.ResponseWriter, r *http.Request) (in T, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return in, refused{errors.New("want a body with Content-Type: application/json"), http.StatusUnsupportedMediaType}
	}
	body, status, err := web.Body(w, r, maxPosted)
	if err != nil {
		return in, refused{err, status}
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields() // a misspelled one would start another run than was meant
	err = decoder.Decode(&in)
	if _, after := decoder.Token(); err == nil && after != io.EOF {
		err = errors.New("it has more than one value")
	}
	if err != nil {
		return in, mistake{fmt.Errorf("the body is no such JSON: %w", err)}
	}
	return in, nil
}
