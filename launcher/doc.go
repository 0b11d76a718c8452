// Package launcher holds the plug-ins that start the programs of engines on the machines of a run
// (cluster.launcher).
package launcher
