package monitor

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/retry"
)

// Limits of an answer of a service.
const (
	answerTimeout = 30 * time.Second
	maxAnswer     = 1 << 20 // bytes
)

// client returns a client for requests to a service.
func client() *retry.Client { return &retry.Client{Timeout: answerTimeout, MaxBody: maxAnswer} }

// isAddress refuses an argument that is no address of an HTTP server.
func isAddress(key, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http://", "https://"}, u.Scheme+"://") {
		return fmt.Errorf("%s: want an address such as http://localhost:5000", key) // without the text, which may have a password
	}
	return nil
}

// withoutSecrets returns an address without user, password and query.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.TrimRight((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), "/")
}

// shorten returns the beginning of a text, at most n characters.
func shorten(text string, n int) string {
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}
