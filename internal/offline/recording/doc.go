// Package recording stores the inputs of a loop, and decides again from them.
//
// Its input is the calls of a loop.Recorder: the rounds with their times, the changes of
// each round, takeovers, and decisions. Its output is a file, and from a file the same
// decisions once more. It owns the format. It never reads the cluster, and never makes
// the loop wait: Writer keeps the inputs in memory, where they are shared with the loop,
// and its goroutine encodes and writes them.
//
// Why this suffices: a decision depends on the order of the inputs alone. The loop has
// one goroutine, its budgets count work, and its times are inputs. So a file needs no
// state of the queue or the engine. The price is that a recording begins with its
// process, and cannot begin in the middle.
//
// # Format
//
// A file is a sequence of zstd frames, each with a checksum. Their content is a protobuf
// message without an end, whose fields are the entries, in order:
//
//	1  Header    once, first: versions, configuration, gates, seed, flags
//	2  Round     times of the steady clock and the wall clock, whether the replica leads
//	3  Change    one change of the last round: an object of the API, or a result
//	4  Decision  one decision of the last round, to compare with
//	5  TakeOver  the process leads from now on
//	6  Gap       the recording ends here, and why
//
// wire.go has the fields of each. Times are nanoseconds since 1970, zigzag-encoded.
// Objects are in the protobuf of their API version, trimmed to what scheduling reads
// (package kinds). Results of writes name the pod or the claim; the replay finds its own
// value for it, because the loop compares pointers.
//
// Numbers of fields, entries and kinds of change never change their meaning. A new field
// that an old reader may ignore keeps the Format; all else raises it. testdata has a
// recording of each format, which all later versions must replay.
//
// Example: 5,000 nodes and 50,000 pods are one round with 55,000 changes. Then each pod
// that is created, bound and shown on its node is three changes, about 80 bytes each
// after compression.
//
// # Left out
//
// Answers of extenders and of out-of-tree plugins are inputs, too. A scheduler that has
// any refuses to record. Advice in events is no decision and is not compared.
package recording
