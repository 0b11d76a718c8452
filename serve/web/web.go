// Package web is the shell that all HTTP servers of the program share: listening, guarding against
// foreign web pages, tokens, deadlines, JSON and shutdown.
package web

import (
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
	"strings"
	"time"
)

// Server serves a handler until its context ends.
type Server struct {
	Handler http.Handler
	Read    time.Duration // for a whole request; 0 is no limit, for large uploads
	Write   time.Duration // for a request and its reply; 0 is no limit, for long polls and large files
	Grace   time.Duration // for requests in flight at the end; 0 aborts them
}

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 1 << 16 // bytes
)

// Listen listens on a TCP address. An address without a host, such as ":8080", is on the loopback
// interface.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && host == "" {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
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
// status 500 and the reason.
func WriteJSON(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // a client that has closed the connection needs no reply
}
