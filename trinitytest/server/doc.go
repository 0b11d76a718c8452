// Package server starts servers on loopback for tests of their clients: real ones, in temporary
// directories, and fakes that may lie.
package server
