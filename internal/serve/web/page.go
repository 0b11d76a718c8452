package web

import (
	"fmt"
	"net/http"
)

// policy is the Content-Security-Policy of a page whose parts all come from its server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Secured adds headers that forbid the browser all that a page of this program does not need.
func Secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// WithToken lets requests pass that carry the token, and all requests if token is "". The refusal
// says that the command printed the address with the token.
func WithToken(next http.Handler, token, command string, refuse func(w http.ResponseWriter, status int, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && !Authorized(r, token) {
			refuse(w, http.StatusUnauthorized, fmt.Errorf("the token is missing or wrong: open the address that `%s` printed", command))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Refuse replies with a status and {"error": "…"}.
func Refuse(w http.ResponseWriter, status int, err error) {
	WriteJSON(w, status, map[string]string{"error": err.Error()})
}
