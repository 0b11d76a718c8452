// Package studio serves a page and an API that show runs: their state, curves, rollouts, tokens and
// times. It reads the files of the runs' directories, writes nothing there and takes no lock, so a run
// neither waits for nor fails by who watches it. docs/reference/studio-api.md describes the API.
package studio
