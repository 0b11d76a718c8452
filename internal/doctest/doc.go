// Package doctest tests the documents: their commands are run and their Go code is code of the repository.
package doctest
