// Package house holds the tests that keep the rules of the house: who may import whom, how long files are, that packages are documented.
package house
