// Package web is the shell that all HTTP servers of the program share: listening, guarding against
// foreign web pages, tokens, deadlines, JSON and shutdown.
package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
)

// Server serves a handler until its context ends.
type Server struct {
	Handler http.Handler
	Read    time.Duration // for a whole request; 0 is no limit
	Write   time.Duration // for a request and its reply; 0 is no limit
	Grace   time.Duration // for requests in flight at the end; 0 aborts them
}

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 1 << 16 // bytes
	// minToken is the least length of a token that other machines may try to guess. 16 hexadecimal
	// digits are 64 bits, which 100,000 guesses a second find after 3 million years on average.
	minToken   = 16
	retryAfter = "1" // seconds after which a client that finds no room may ask again
)

// Listen listens on a TCP address. An address without a host, such as ":8080", is on the loopback
// interface. Any other address needs the token of CheckToken.
func Listen(ctx context.Context, address, token string) (net.Listener, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && host == "" {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	if err := CheckToken(address, token); err != nil {
		return nil, err
	}
	return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
}

// Reachable returns the address that other machines can use. It replaces an unspecified IP address,
// such as that of ":::8080", by the host's name.
func Reachable(addr *net.TCPAddr) string {
	if name, err := os.Hostname(); err == nil && addr.IP.IsUnspecified() {
		return net.JoinHostPort(name, strconv.Itoa(addr.Port))
	}
	return addr.String()
}

// Addresses returns the address of an API that a client on this machine can use and, if its server
// listens at all of the machine's addresses, that for other machines.
func Addresses(l net.Listener) string {
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok || !at.IP.IsUnspecified() {
		return "http://" + l.Addr().String() + "/v1"
	}
	own := net.JoinHostPort("127.0.0.1", strconv.Itoa(at.Port))
	return "http://" + own + "/v1, from other machines at http://" + Reachable(at) + "/v1"
}

// CheckToken returns an error if other machines can reach a server at an address, with or without a
// port, and its token is short enough to guess.
func CheckToken(address, token string) error {
	switch {
	case isLoopback(address) || len(token) >= minToken:
		return nil
	case token == "":
		return fmt.Errorf("other machines can reach %s, and there is no token that they must know", address)
	}
	return fmt.Errorf("other machines can reach %s, and could guess a token of %d characters: it needs at least %d, such as those "+
		"that `openssl rand -hex 16` prints", address, len(token), minToken)
}

// Serve serves on the listener, which it closes. It returns nil after ctx has ended and requests in
// flight have had their grace.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s.Handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: s.Read,
		WriteTimeout: s.Write, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
	stopped := make(chan error, 1)
	unhook := context.AfterFunc(ctx, func() {
		if s.Grace == 0 {
			stopped <- server.Close()
			return
		}
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Grace)
		defer cancel()
		err := server.Shutdown(ending)
		if errors.Is(err, context.DeadlineExceeded) {
			err = server.Close()
		}
		stopped <- err
	})
	defer unhook()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// Guard refuses requests that a web page of another site makes in a browser. These are requests
// with a foreign Origin. Unless a token protects the server, these are also requests for a host
// name other than this machine's loopback names, because a foreign site could have bound its name
// to this machine. refuse writes the refusal.
func Guard(next http.Handler, token string, refuse func(w http.ResponseWriter, status int, err error)) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusForbidden, fmt.Errorf("this server refuses pages of %s", cmp.Or(r.Header.Get("Origin"), "another site")))
	}))
	guarded := origin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token == "" && !isLoopback(r.Host) {
			refuse(w, http.StatusForbidden, fmt.Errorf("this server answers only this machine by a loopback name, not %q", r.Host))
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// isLoopback reports whether a host, with or without a port, is a loopback name or address.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && ip.IsLoopback()
}

// Authorized reports whether the request's Authorization header is "Bearer " followed by token. It
// compares hashes in constant time, so that the time reveals neither the token nor its length.
func Authorized(r *http.Request, token string) bool {
	got, want := sha256.Sum256([]byte(r.Header.Get("Authorization"))), sha256.Sum256([]byte("Bearer "+token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// WriteJSON replies with a status and body as JSON. If body has no form in JSON, it replies with
// status 500 and the reason. With a status that may pass, it tells the client when to ask again. The
// error says that the client has not got the reply; most servers need not know.
func WriteJSON(w http.ResponseWriter, status int, body any) error {
	data, err := Encode(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return err
	}
	soon := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
	if soon && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.Header().Set("Content-Type", "application/json")
	data = append(data, '\n')
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, err = w.Write(data)
	return errors.Join(err, http.NewResponseController(w).Flush())
}

// Encode returns body as JSON without escapes of <, > and &, which replies are full of: no reply is
// part of a page.
func Encode(body any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(body)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
