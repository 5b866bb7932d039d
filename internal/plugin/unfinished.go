package plugin

import "errors"

// ErrUnfinished ends a turn whose budget of work for this round is used up (see
// price.Meter): the pod goes back to the active queue and its next turn goes on. It
// counts as no attempt, and nobody is told. Whoever returns it has kept what it has done
// so far, so that the next turn does the rest, and has done some work: otherwise the turn
// would never end.
var ErrUnfinished = errors.New("the turn goes on in a later round")
