// Package doctest tests the documents. It runs their commands, and checks that their Go code is
// code of the repository.
package doctest
