// A client of `memwell serve`. generate.py writes this file from the server's OpenAPI document.

/** One line of `memwell doctor`. */
export interface Check {
  name: string
  ok: boolean
  detail: string
  remedy: string
}

/** A passage with the text around it. */
export interface Context {
  start_line: number
  end_line: number
  text: string
}

/** The checks of `doctor`. */
export interface DoctorResponse {
  checks: Array<Check>
}

/** The fields of a fact to change. */
export interface EditRequest {
  text?: string | null
  category?: string | null
  tags?: Array<string> | null
  importance?: number | null
  confidence?: number | null
}

/** How many facts were removed, and where their texts may still be. */
export interface EraseReport {
  count: number
  pending: boolean
  backups: Array<string>
  remains: string
  predecessors: Array<string>
}

/** Lines of a note as they are in the file now. */
export interface Excerpt {
  path: string
  workspace: string
  start_line: number
  end_line: number
  text: string
  links: Array<string>
  backlinks: Array<string>
}

/** A short statement that is remembered. Times are UTC, ISO 8601. */
export interface Fact {
  id: string
  text: string
  category: string
  source: string
  origin: string
  importance: number
  confidence: number
  decay_class: string
  created_at: string
  confirmed_at: string
  expires_at: string | null
  valid_from: string | null
  valid_until: string | null
  superseded_by: string | null
  scope: string
  target: string
  tags: Array<string>
}

/** An event in the history of a fact. */
export interface FactEvent {
  fact_id: string
  at: string
  what: string
  detail: string
}

/** Facts, the newest first. */
export interface FactsResponse {
  facts: Array<Fact>
}

/** The ids of facts to forget. */
export interface ForgetRequest {
  ids: Array<string>
  predecessors?: boolean
}

/** How up to date the index was when it answered. */
export interface Freshness {
  checked: boolean
  pending: number
  unembedded: number
  synced_at: string | null
  note: string
}

/** The events of a fact, and of the facts that it superseded. */
export interface HistoryResponse {
  events: Array<FactEvent>
}

/** One passage that answers a query. */
export interface Hit {
  path: string
  workspace: string
  start_line: number
  end_line: number
  score: number
  relevance: number
  text: string
  kind: string
  title: string
  heading: Array<string>
  date: string | null
  tags: Array<string>
  marks: Array<[number, number]>
  focus: [number, number] | null
  weak: boolean
  also: Array<string>
  more_lines: Array<[number, number]>
  context: Context | null
  trace: Trace | null
  valid_until: string | null
  position: string
}

/** The result of a sync: counts of notes, and the problems. */
export interface IndexReport {
  workspace: string
  added: number
  changed: number
  moved: number
  deleted: number
  unchanged: number
  chunks_written: number
  seconds: number
  problems: Array<Problem>
  left_out: Array<string>
}

/** The report of each workspace. */
export interface IndexResponse {
  reports: Array<IndexReport>
}

/** One way of searching, and whether it worked this time. */
export interface Leg {
  name: string
  answered: boolean
  reason: string
  detail: string
}

/** The contribution of one leg (keyword or vector search) to the score of a hit. */
export interface LegScore {
  leg: string
  rank: number | null
  raw: number | null
  evidence: number
  weight: number
  contribution: number
}

/** A text to append to today's log. */
export interface NoteRequest {
  text: string
}

/** A problem with one file that the user should know; never fatal. */
export interface Problem {
  path: string
  what: string
  remedy: string
}

/** The wider scope of a fact. */
export interface PromoteRequest {
  scope: "global" | "user" | "agent"
}

/** A provider of the fallback chain, and whether it can be used. */
export interface ProviderStatus {
  name: string
  usable: boolean
  detail: string
}

/** How many expired facts were deleted. */
export interface PruneResponse {
  pruned: number
}

/** A block of text, the hits in it, and an estimate of its tokens. */
export interface Recall {
  block: string
  hits: Array<Hit>
  tokens: number
}

/** A message to an agent, and how many tokens the recalled block may have. */
export interface RecallRequest {
  message: string
  budget?: number | null
  include_superseded?: boolean
  as_of?: string | null
}

/** A text to remember, with its category, tags, scope and lifetime. */
export interface RememberRequest {
  text: string
  category?: string
  tags?: Array<string>
  source?: string
  origin?: string
  importance?: number
  confidence?: number
  decay_class?: string
  scope?: string | null
  valid_from?: string | null
  secrets?: string
}

/** The outcome of `remember` or `supersede`: the fact, and the one that it superseded. */
export interface RememberResult {
  outcome: string
  fact: Fact
  instead_of: Fact | null
  similar_to: Fact | null
}

/** A query and its options; the settings decide what is left out. */
export interface SearchRequest {
  query: string
  k?: number | null
  min_score?: number | null
  mode?: "hybrid" | "words" | "meaning" | null
  fusion?: "standard" | "rrf" | "weighted" | null
  diversity?: "off" | "mmr" | "cluster" | null
  context?: "neighbours" | "section" | null
  group?: "notes" | "passages" | null
  kind?: "note" | "fact" | "transcript" | null
  include_superseded?: boolean
  as_of?: string | null
  explain?: boolean
}

/** The hits of one query, with notices about the search. */
export interface SearchResult {
  query: string
  hits: Array<Hit>
  legs: Array<Leg>
  freshness: Freshness
  suggestions: Array<string>
  notices: Array<string>
  order: string
}

/** The vectors of one model. */
export interface SpaceStatus {
  id: number
  provider: string
  model: string
  dimensions: number
  state: string
  embedded: number
  chunks: number
  opened_at: string
  retired_at: string | null
  random_mean: number | null
  random_deviation: number | null
  fingerprint: string
}

/** The vector spaces, the live one first. */
export interface SpacesResponse {
  spaces: Array<SpaceStatus>
}

/** The state of one agent's index. */
export interface Status {
  version: string
  home: string
  agent: string
  index: string
  bytes: number
  words: string
  meaning: string
  providers: Array<ProviderStatus>
  spaces: Array<SpaceStatus>
  workspaces: Array<WorkspaceStatus>
  store: Array<Check>
  warnings: Array<string>
  deep: Record<string, unknown>
}

/** A text that supersedes the fact with the id `old`. */
export interface SupersedeRequest {
  text: string
  category?: string
  tags?: Array<string>
  source?: string
  origin?: string
  importance?: number
  confidence?: number
  decay_class?: string
  scope?: string | null
  valid_from?: string | null
  secrets?: string
  old: string
}

/** The steps that made the score of a hit. */
export interface Trace {
  parts: Array<LegScore>
  fused: number
  above_chance: number | null
  covered: number | null
  relevance: number
  min_score: number
  kept: number
  kept_why: string
  score: number
  copies: number
  worth: number | null
  best_logit: number | null
  below_best: number
  slope: number
  gain: number
}

/** Whether the memory of facts is sound; `memwell verify` on the server has the details. */
export interface VerifyResponse {
  sound: boolean
  findings: number
}

/** The verdict on one note in one search, with the reason and a remedy. */
export interface Why {
  query: string
  path: string
  verdict: string
  reason: string
  remedy: string
  trace: Trace | null
}

/** A query, and a note that is or is not among its hits. */
export interface WhyRequest {
  query: string
  path: string
  k?: number | null
  mode?: "hybrid" | "words" | "meaning" | null
}

/** The contents of one workspace in the index. */
export interface WorkspaceStatus {
  root: string
  notes: number
  chunks: number
  synced_at: string | null
  missing: boolean
}

/** An error that the server answered with. */
export class MemwellError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly param: string | null = null,
    readonly code: string | null = null,
  ) {
    super(message)
    this.name = "MemwellError"
  }
}

export interface ClientOptions {
  /** The address of the server. */
  url?: string
  /** `memwell serve token local` prints the owner's. */
  token?: string
}

type Query = Record<string, string | number | boolean | null | undefined>

/** A memory behind `memwell serve`. */
export class MemwellClient {
  #url: string
  #token: string

  constructor({ url = "http://127.0.0.1:8765", token = "" }: ClientOptions = {}) {
    this.#url = url.replace(/\/+$/, "")
    this.#token = token
  }

  /** Find the passages that answer a query, best first. */
  search(body: SearchRequest): Promise<SearchResult> {
    return this.#send("POST", "/api/search", { body })
  }

  /** Return the rank of a note among the hits of a query, or why it is not among them. */
  why(body: WhyRequest): Promise<Why> {
    return this.#send("POST", "/api/why", { body })
  }

  /** Return the facts and passages for a message, as a block for an agent's prompt. */
  recall(body: RecallRequest): Promise<Recall> {
    return this.#send("POST", "/api/recall", { body })
  }

  /** Read a note, or some of its lines (PATH#L3-L9). */
  getNote(query: { reference: string }): Promise<Excerpt> {
    return this.#send("GET", "/api/get", { query })
  }

  /** Append a text to today's log of the workspace. */
  appendNote(body: NoteRequest): Promise<Excerpt> {
    return this.#send("POST", "/api/note", { body })
  }

  /** Remember a fact, or reinforce the one with the same text. */
  remember(body: RememberRequest): Promise<RememberResult> {
    return this.#send("POST", "/api/remember", { body })
  }

  /** Remember a fact that supersedes another one. */
  supersede(body: SupersedeRequest): Promise<RememberResult> {
    return this.#send("POST", "/api/supersede", { body })
  }

  /** Delete facts from the memory and every index. */
  forget(body: ForgetRequest): Promise<EraseReport> {
    return this.#send("POST", "/api/forget", { body })
  }

  /** List facts, the newest first. */
  listFacts(query: { category?: string | null; tag?: string | null; scope?: string | null; source?: string | null; include_superseded?: boolean; as_of?: string | null; limit?: number } = {}): Promise<FactsResponse> {
    return this.#send("GET", "/api/facts", { query })
  }

  /** Return a fact. */
  getFact(factId: string): Promise<Fact> {
    return this.#send("GET", `/api/facts/${encodeURIComponent(factId)}`, {})
  }

  /** Change fields of a fact. */
  editFact(factId: string, body: EditRequest): Promise<Fact> {
    return this.#send("PATCH", `/api/facts/${encodeURIComponent(factId)}`, { body })
  }

  /** Return the events of a fact, and of the facts that it superseded. */
  getFactHistory(factId: string): Promise<HistoryResponse> {
    return this.#send("GET", `/api/facts/${encodeURIComponent(factId)}/history`, {})
  }

  /** Give a fact a wider scope. */
  promoteFact(factId: string, body: PromoteRequest): Promise<Fact> {
    return this.#send("POST", `/api/facts/${encodeURIComponent(factId)}/promote`, { body })
  }

  /** Delete expired facts. */
  pruneExpiredFacts(): Promise<PruneResponse> {
    return this.#send("POST", "/api/facts/prune", {})
  }

  /** Return the facts that the viewer sees, with their history. */
  exportFacts(query: { format?: "jsonl" | "markdown" } = {}): Promise<string> {
    return this.#send("GET", "/api/export", { query })
  }

  /** Return what the index contains; `deep` also checks every page of it. */
  getStatus(query: { deep?: boolean } = {}): Promise<Status> {
    return this.#send("GET", "/api/status", { query })
  }

  /** Return checks of the installation; each problem has a remedy. */
  runDoctor(): Promise<DoctorResponse> {
    return this.#send("GET", "/api/doctor", {})
  }

  /** List the vector spaces. */
  listSpaces(): Promise<SpacesResponse> {
    return this.#send("GET", "/api/spaces", {})
  }

  /** Use another space for searches. */
  switchSpace(number: number): Promise<SpacesResponse> {
    return this.#send("POST", `/api/spaces/${encodeURIComponent(number)}/switch`, {})
  }

  /** Delete a space that is not live. */
  dropSpace(number: number): Promise<SpacesResponse> {
    return this.#send("DELETE", `/api/spaces/${encodeURIComponent(number)}`, {})
  }

  /** Sync the workspaces now; a background thread embeds. */
  syncNotes(): Promise<IndexResponse> {
    return this.#send("POST", "/api/index", {})
  }

  /** Check every fact; the findings stay on the server, as they name facts of all users. */
  verifyFacts(): Promise<VerifyResponse> {
    return this.#send("GET", "/api/verify", {})
  }

  async #send<T>(
    method: string,
    path: string,
    { body, query = {} }: { body?: unknown; query?: Query },
  ): Promise<T> {
    const address = new URL(this.#url + path)
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined && value !== null) address.searchParams.set(name, String(value))
    }
    const headers: Record<string, string> = {}
    if (this.#token) headers["authorization"] = `Bearer ${this.#token}`
    if (body !== undefined) headers["content-type"] = "application/json"
    const response = await fetch(address, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const isJson = (response.headers.get("content-type") ?? "").includes("json")
    if (response.ok) return (isJson ? JSON.parse(text) : text) as T
    const error = isJson ? JSON.parse(text).error : { message: text || response.statusText }
    throw new MemwellError(response.status, error.message, error.param, error.code)
  }
}
