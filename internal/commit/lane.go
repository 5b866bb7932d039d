package commit

// lane is a FIFO queue.
type lane[T any] struct {
	items []T
	head  int
}

func (l *lane[T]) len() int { return len(l.items) - l.head }

func (l *lane[T]) push(item T) {
	if l.head == len(l.items) {
		l.items, l.head = l.items[:0], 0
	}
	// Once half of the slice is free at the front, moving the items is cheaper than
	// growing.
	if len(l.items) == cap(l.items) && l.head > len(l.items)/2 {
		n := copy(l.items, l.items[l.head:])
		clear(l.items[n:])
		l.items, l.head = l.items[:n], 0
	}
	l.items = append(l.items, item)
}

// pop removes the first item. The lane must not be empty.
func (l *lane[T]) pop() T {
	var none T
	item := l.items[l.head]
	l.items[l.head] = none
	l.head++
	return item
}

// first returns the first item. The lane must not be empty.
func (l *lane[T]) first() T { return l.items[l.head] }
