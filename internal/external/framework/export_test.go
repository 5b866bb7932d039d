package framework

// Abandoned returns how many calls have been abandoned, and how many of them still run.
func (l *Lane) Abandoned() (ever, running int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.abandoned, l.hung.running()
}

// running returns the number of hanging calls.
func (h hung) running() (n int) {
	for _, pods := range h {
		for _, calls := range pods {
			n += calls
		}
	}
	return n
}
