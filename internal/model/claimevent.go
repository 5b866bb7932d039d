package model

import (
	"slices"
)

// ClaimEvents registers for events about the claims that a pod uses. Claims made for the
// pod are included only if ephemeral is set. The actions must not contain Delete. Each
// event finds exactly the pods that use its claim.
func ClaimEvents(actions Action, ephemeral bool) EventToRegister {
	return EventToRegister{
		Resource: PersistentVolumeClaimEvent, Actions: actions,
		Hint:  func(waiting *Pod, e Event) bool { return waiting.Volumes.Names(e.Object.Ref().ClaimKey(), ephemeral) },
		Alike: func(waiting *Pod) Need { return textOfClaims(waiting.Volumes.claimNames(ephemeral)) },
		Cause: func(waiting *Pod) Cause {
			return Cause{Wants: []Way{{ClaimKeys(nil, waiting.Volumes.claimNames(ephemeral))}}}
		},
		Touches: func(e Event, to *Touch) {
			to.Has = ClaimKeys(to.Has, []ClaimKey{e.Object.Ref().ClaimKey()})
		},
	}
}

// claimNames returns the keys of the claims that the pod uses, sorted and distinct.
// Claims made for the pod are included only if ephemeral is set.
func (v *PodVolumes) claimNames(ephemeral bool) []ClaimKey {
	if v == nil {
		return nil
	}
	keys := make([]ClaimKey, 0, len(v.Claims))
	for _, c := range v.Claims {
		if ephemeral || !c.Ephemeral {
			keys = append(keys, c.Key)
		}
	}
	slices.SortFunc(keys, ClaimKey.Compare)
	return slices.Compact(keys)
}

// Named returns the keys of the claims that the pod names directly, sorted and distinct.
func (v *PodVolumes) Named() []ClaimKey { return v.claimNames(false) }

// ClaimKeys appends a key for each claim, for causes and touches.
func ClaimKeys(to []Key, claims []ClaimKey) []Key {
	to = slices.Grow(to, len(claims))
	for _, c := range claims {
		to = append(to, Key{Kind: "claim", Namespace: c.Namespace, Name: c.Name})
	}
	return to
}

func textOfClaims(claims []ClaimKey) Need {
	if len(claims) == 0 {
		return Need{}
	}
	return NeedOf(string(AppendClaims(nil, claims)))
}

// AppendClaims appends a canonical text of some claims.
func AppendClaims(text []byte, claims []ClaimKey) []byte {
	for _, c := range claims {
		text = AppendQuote(text, c.Namespace)
		text = AppendQuote(text, c.Name)
	}
	return text
}
