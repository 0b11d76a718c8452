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

// posted answers requests that check, start or stop something. They carry the token [Server.Control],
// and JSON, which a form of another page cannot send.
func posted[T any](s *Server, answer func(r *http.Request, in T) (any, error)) http.Handler {
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in, status, err := decoded[T](s, w, r)
		if err != nil {
			web.Refuse(w, status, err)
			return
		}
		if reply, err := answer(r, in); err != nil {
			web.Refuse(w, statusOf(err), err)
		} else {
			web.WriteJSON(w, http.StatusOK, reply)
		}
	})
	return web.WithToken(serve, s.Control, "trinity studio", web.Refuse)
}

// decoded returns the body of a request, or the status with which it is refused.
func decoded[T any](s *Server, w http.ResponseWriter, r *http.Request) (in T, status int, err error) {
	if s.Control == "" {
		return in, http.StatusForbidden, errors.New("this studio only shows runs: start it without --read-only")
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return in, http.StatusUnsupportedMediaType, errors.New("want a body with Content-Type: application/json")
	}
	body, status, err := web.Body(w, r, maxPosted)
	if err != nil {
		return in, status, err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields() // a misspelled one would start another run than was meant
	err = decoder.Decode(&in)
	if _, after := decoder.Token(); err == nil && after != io.EOF {
		err = errors.New("it has more than one value")
	}
	if err != nil {
		return in, http.StatusBadRequest, fmt.Errorf("the body is no such JSON: %w", err)
	}
	return in, http.StatusOK, nil
}
