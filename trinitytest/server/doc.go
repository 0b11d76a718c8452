// Package server starts real servers on loopback, in temporary directories, for tests of their
// clients.
package server
