// Package queued lists the waiting pods of the running scheduler, grouped by owner and
// reason.
//
// It takes a question: a namespace or all, and a selector of labels. It returns an
// Answer with one Group for the pods of an owner that wait in the same place for the same
// reason. It owns a snapshot of the queue while questions wait for it.
//
// A snapshot reads the queue on the loop's goroutine in slices of sliceOf pods, so that
// the loop never stops for longer than one slice. The names come from the informer's
// cache. A pod that moves between two slices may be missing, and positions may be off by
// the pods that had their turn meanwhile. A snapshot of the whole queue in one call was
// rejected, because 100,000 waiting pods stop the loop for 60 ms.
//
// It never writes, and never calls a plugin. Authorization is the server's.
package queued
