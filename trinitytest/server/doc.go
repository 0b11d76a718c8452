// Package server starts real servers on loopback, in temporary directories, for tests of what talks to them.
package server
