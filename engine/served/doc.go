// Package served holds samplers behind HTTP: servers of other programs, which run already and which
// a run asks for continuations, token by token. A file holds the plug-in of one kind of server; the
// rest is the same for all: which server gets a request (pool), what a server must show before it is
// trusted (check), and how new weights reach it (load).
package served
