// Package house tests the rules of the house: which packages may import which, where names of
// plug-ins stand, how long files and lines are, and that packages have comments.
package house
