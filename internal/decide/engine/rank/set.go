package rank

// set is the nodes of a level, in buckets by the first bits of their places. Counts find
// one of very many nodes.
type set struct {
	nodes int
	// depth is the number of bits that choose the bucket.
	depth   int
	buckets [][]int32 // slots, by the first bits
	// counts are the numbers of nodes below each node of the tree above the buckets. The
	// root is at 1, and the children of i are at 2i and 2i+1. With depth 0 it is empty.
	counts []int32
}

// The buckets are divided above an average of crowded nodes, and merged below sparse. A
// step of two bits changes the average by a factor of four.
const (
	crowded = 16
	sparse  = 1
	step    = 2
	// room is the initial number of free places in a bucket.
	room = 2
)

// first returns the slot of one of the nodes.
func (s *set) first() int32 {
	for _, bucket := range s.buckets {
		if len(bucket) > 0 {
			return bucket[0]
		}
	}
	return -1
}

// count returns the number of nodes whose places begin with a prefix of this many bits,
// at most the set's depth.
func (s *set) count(bits, prefix int) int {
	if s.depth == 0 {
		return s.nodes
	}
	return int(s.counts[1<<bits|prefix])
}

// bucketOf returns the bucket of a place.
func (s *set) bucketOf(place uint64) int { return int(place >> (64 - s.depth)) }

func (s *set) add(t *Table, slot int32) {
	if s.nodes++; s.buckets == nil {
		s.buckets = make([][]int32, 1)
	}
	s.put(t, slot)
	if s.nodes > crowded<<s.depth && !t.filling {
		s.settle(t)
	}
}

// settle divides the nodes into more buckets if they are crowded.
func (s *set) settle(t *Table) {
	depth := s.depth
	for s.nodes > crowded<<depth {
		depth += step
	}
	if depth > s.depth {
		s.deepen(t, depth)
	}
}

func (s *set) put(t *Table, slot int32) {
	bucket := s.bucketOf(t.place[slot])
	t.at[slot] = int32(len(s.buckets[bucket]))
	s.buckets[bucket] = append(s.buckets[bucket], slot)
	s.change(bucket, +1)
}

// change adds to the counts above a bucket.
func (s *set) change(bucket int, n int32) {
	if s.depth == 0 {
		return
	}
	for i := 1<<s.depth | bucket; i > 0; i >>= 1 {
		s.counts[i] += n
	}
}

func (s *set) remove(t *Table, slot int32) {
	bucket := s.bucketOf(t.place[slot])
	slots := s.buckets[bucket]
	last := slots[len(slots)-1]
	slots[t.at[slot]], t.at[last] = last, t.at[slot]
	s.buckets[bucket] = slots[:len(slots)-1]
	s.change(bucket, -1)
	if s.nodes--; s.nodes < sparse<<s.depth && s.depth > 0 {
		s.deepen(t, s.depth-step)
	}
}

// deepen sorts the nodes into new buckets. The buckets are parts of one slice until they
// outgrow their place.
func (s *set) deepen(t *Table, depth int) {
	before := s.buckets
	s.depth, s.buckets, s.counts = depth, make([][]int32, 1<<depth), make([]int32, 2<<depth)
	leaves := s.counts[1<<depth:]
	for _, bucket := range before {
		for _, slot := range bucket {
			leaves[s.bucketOf(t.place[slot])]++
		}
	}
	for i := 1<<depth - 1; i > 0; i-- {
		s.counts[i] = s.counts[2*i] + s.counts[2*i+1]
	}
	memory, from := make([]int32, s.nodes+room<<depth), 0
	for bucket, n := range leaves {
		end := from + int(n) + room
		s.buckets[bucket] = memory[from:from:end]
		from = end
	}
	for _, bucket := range before {
		for _, slot := range bucket {
			to := s.bucketOf(t.place[slot])
			t.at[slot] = int32(len(s.buckets[to]))
			s.buckets[to] = append(s.buckets[to], slot)
		}
	}
}
