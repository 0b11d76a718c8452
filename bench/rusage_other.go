//go:build !unix

package main

import (
	"os"
	"time"
)

// processorTime is not known here.
func processorTime() time.Duration { return 0 }

// peakOf is not known here.
func peakOf(*os.ProcessState) int64 { return 0 }

// openFiles is not known here.
func openFiles() uint64 { return 0 }
