package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// HTTP is the transport of a server behind a URL ("Streamable HTTP").
type HTTP struct {
	URL     string
	Headers map[string]string // of each request

	session string // the server's name for the session; "" if it has none
	version string // of the protocol, once it is known
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 64 << 20

// send sends a request of HTTP about the session.
func (h *HTTP) send(ctx context.Context, method string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, h.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range map[string]string{"Mcp-Session-Id": h.session, "MCP-Protocol-Version": h.version} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	for name, value := range h.Headers {
		r.Header.Set(name, value)
	}
	return http.DefaultClient.Do(r)
}

// post posts a message. The response has a status of success.
func (h *HTTP) post(ctx context.Context, message []byte) (*http.Response, error) {
	r, err := h.send(ctx, http.MethodPost, message)
	if err != nil {
		return nil, err
	}
	if r.StatusCode/100 != 2 {
		defer r.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(r.Body, 200))
		return nil, fmt.Errorf("%s answers %s: %s", h.URL, r.Status, bytes.TrimSpace(text))
	}
	if id := r.Header.Get("Mcp-Session-Id"); id != "" {
		h.session = id
	}
	return r, nil
}

// Notify implements [Transport].
func (h *HTTP) Notify(ctx context.Context, message []byte) error {
	r, err := h.post(ctx, message)
	if err != nil {
		return err
	}
	return r.Body.Close()
}

// Ask implements [Transport]. The server answers with one message or with a stream of events, of
// which one is the answer.
func (h *HTTP) Ask(ctx context.Context, request []byte, isAnswer func([]byte) bool) ([]byte, error) {
	r, err := h.post(ctx, request)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body := io.LimitReader(r.Body, maxAnswer)
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "text/event-stream" {
		answer, err := io.ReadAll(body)
		if err == nil && !isAnswer(answer) {
			err = fmt.Errorf("%s answers %.200q, which is no answer to the request", h.URL, answer)
		}
		return answer, err
	}
	var data []string
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "data:"); ok {
			data = append(data, strings.TrimPrefix(text, " "))
		} else if lines.Text() == "" { // the end of an event
			if event := []byte(strings.Join(data, "\n")); isAnswer(event) {
				return event, nil
			}
			data = nil
		}
	}
	return nil, errors.Join(lines.Err(), fmt.Errorf("%s ends its stream without an answer", h.URL))
}

// Close ends the session.
func (h *HTTP) Close(ctx context.Context) error {
	if h.session == "" {
		return nil
	}
	r, err := h.send(ctx, http.MethodDelete, nil)
	if err != nil {
		return err
	}
	return r.Body.Close() // a server may refuse to end sessions
}
